"""The endpoints of Insight: who may do what, and what each failure answers."""

import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine
from support.asgi import Reply, request
from support.clock import T0, FakeClock
from support.insight_checks import EVENTS, expected_healing
from support.insight_history import incident, opened_store
from support.insight_site import PERIOD, READER, SENDER, insight_app

from insight.store.database import database_url, open_database
from kubenode.runtime.stream.model import EventNode, encode_batch


class InsightWorld:
    """An application over a store, with tokens of senders and readers."""

    def __init__(self, engine: Engine, folder: Path, threads: ThreadPoolExecutor) -> None:
        clock, self.registry = FakeClock(), CollectorRegistry()
        clock.step(timedelta(days=50))
        self.app = insight_app(engine, clock, threads, self.registry, folder)

    async def post(self, body: bytes, token: str = SENDER) -> Reply:
        return await request(self.app, "POST", "/v1/events", body, _bearer(token))

    async def get(self, target: str, token: str = READER) -> Reply:
        return await request(self.app, "GET", target, b"", _bearer(token))

    def refusals(self, reason: str) -> float:
        labels = {"reason": reason}
        return self.registry.get_sample_value("kubenode_insight_refusals_total", labels) or 0.0


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"} if token else {}


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


@pytest.fixture
def world(tmp_path: Path, threads: ThreadPoolExecutor) -> Iterator[InsightWorld]:
    engine = opened_store(f"sqlite:///{tmp_path}/insight.db")
    yield InsightWorld(engine, tmp_path, threads)
    engine.dispose()


async def test_events_are_stored_and_analysed(world: InsightWorld) -> None:
    answer = await world.post(encode_batch(EVENTS))
    zeros = dict.fromkeys(("known", "expired", "ignored", "shortened"), 0)
    assert answer.json() == {"stored": len(EVENTS), **zeros}
    assert (await world.post(encode_batch(EVENTS))).json()["known"] == len(EVENTS)
    healing = (await world.get(f"/v1/healing?{PERIOD}")).json()
    assert healing["since"] == "2026-01-06T12:00:00Z"
    assert [row["jobs"] for row in healing["rows"]] == [row.jobs for row in expected_healing()]
    faults = (await world.get(f"/v1/faults?{PERIOD}&by=machine-type&every=week")).json()["rows"]
    assert {row["value"] for row in faults} == {"m1", "m2"}
    lemons = (await world.get(f"/v1/lemons?{PERIOD}&min=8")).json()["rows"]
    assert all(row["faults"] >= 8 for row in lemons)
    assert lemons


async def test_period_is_the_last_30_days_by_default(world: InsightWorld) -> None:
    answer = (await world.get("/v1/lemons")).json()
    assert answer["until"] == (T0 + timedelta(days=50)).isoformat().replace("+00:00", "Z")
    assert answer["since"] == (T0 + timedelta(days=20)).isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize("token", ["", "x" * 32, READER, "x" * 5000])
async def test_only_senders_send(world: InsightWorld, token: str) -> None:
    answer = await world.post(encode_batch(EVENTS[:1]), token)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert world.refusals("Unauthorized") == 1


@pytest.mark.parametrize(
    "path", ["/v1/faults", "/v1/incidents", "/v1/incidents/uid-1", "/v1/lemons"]
)
@pytest.mark.parametrize("token", ["", "x" * 32, SENDER])
async def test_only_readers_read(world: InsightWorld, path: str, token: str) -> None:
    assert (await world.get(path, token)).status == 401


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("/v1/faults?by=colour", "by: is 'colour'; it must be one of class, rule"),
        ("/v1/faults?every=year", "every: is 'year'"),
        ("/v1/lemons?min=0", "min: is '0'; it must be a number from 1"),
        ("/v1/healing?days=0", "days: is '0'"),
        ("/v1/healing?rule=%00", "rule: is"),
        ("/v1/incidents?node=" + "x" * 300, "at most 253 printable characters"),
        ("/v1/lemons?min=²", "min: is"),
        ("/v1/lemons?min=99999999999999999999", "min: is"),
        ("/v1/healing?since=yesterday", "since: is 'yesterday'; write an instant like"),
        ("/v1/healing?since=2026-01-01T00:00:00", "since: is"),
        ("/v1/healing?until=0001-01-01T00:00:00Z", "until: is"),
        ("/v1/healing?since=2026-02-01T00:00:00Z&until=2026-01-01T00:00:00Z", "not before until"),
    ],
)
async def test_bad_parameter_is_named(world: InsightWorld, target: str, message: str) -> None:
    answer = await world.get(target)
    assert answer.status == 400
    assert message in answer.json()["message"]


async def test_malformed_batch_is_refused_for_good(world: InsightWorld) -> None:
    answer = await world.post(b"[{}]")
    assert (answer.status, world.refusals("Malformed")) == (400, 1)
    assert "body" in answer.json()["message"]


async def test_body_beyond_the_limit_is_refused(world: InsightWorld) -> None:
    answer = await request(
        world.app, "POST", "/v1/events", b"[]", _bearer(SENDER) | {"content-length": "99999999"}
    )
    assert answer.status == 413


async def test_database_that_is_away_is_temporary(
    tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    engine = open_database(database_url(f"sqlite:///{tmp_path}/none/insight.db"))
    world = InsightWorld(engine, tmp_path, threads)
    for answer in (await world.post(encode_batch(EVENTS[:1])), await world.get("/v1/healing")):
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    assert world.refusals("Unavailable") == 2


async def test_token_file_that_vanished_lets_nobody_in(world: InsightWorld, tmp_path: Path) -> None:
    (tmp_path / "readers").unlink()
    answer = await world.get("/v1/healing")
    assert answer.status == 503
    body: dict[str, Any] = json.loads(answer.body)
    assert "cannot be read" in body["message"]


async def test_incident_is_read_by_uid_and_by_name(world: InsightWorld) -> None:
    await world.post(encode_batch(EVENTS))
    by_uid = (await world.get("/v1/incidents/uid-7")).json()
    assert by_uid == (await world.get("/v1/incidents/job-7")).json()
    assert by_uid["opened"]["job"]["name"] == "job-7"
    missing = await world.get("/v1/incidents/nothing")
    assert missing.status == 404
    assert "UID or name 'nothing'" in missing.json()["message"]


async def test_name_of_jobs_in_two_clusters_names_their_uids(world: InsightWorld) -> None:
    dice = random.Random(1)
    node = EventNode(name="n1", uid="node-1")
    twin = incident(7, T0 + timedelta(days=1), node, dice, cluster="west")
    other = [structs.replace(event, id=f"west-{event.id}") for event in twin]
    await world.post(encode_batch([*EVENTS, *other]))
    answer = await world.get("/v1/incidents/job-7")
    assert answer.status == 400
    assert "uid-7, west-uid-7" in answer.json()["message"]


async def test_values_narrow_an_analysis_down(world: InsightWorld) -> None:
    await world.post(encode_batch(EVENTS))
    rows = (await world.get(f"/v1/healing?{PERIOD}&rule=rule-1")).json()["rows"]
    assert [row["jobs"] for row in rows] == [
        row.jobs for row in expected_healing() if row.rule == "rule-1"
    ]
    none = await world.get(f"/v1/faults?{PERIOD}&cluster=elsewhere")
    assert none.json()["rows"] == []
