"""`kubenode defender ... --url` and `kubenode explain`, beside a running Kube Defender."""

import asyncio
import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.command import kubenode, started
from support.daemons import free_port
from support.defender_objects import ZONE, job_object, node_object, policy_object
from support.embedded import EmbeddedPlane
from support.waiting import until

from defender.client import HttpPermits
from kubenode.api.v1alpha1 import Ask, Disruption, Verdict
from kubenode.api.v1alpha1.permit import Holder, Operation
from kubenode.runtime.clock import SystemClock

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
LIMITS = [
    {"scope": "Cluster", "maxConcurrent": 4, "minHealthy": "50%"},
    {"scope": "Label", "label": ZONE, "maxConcurrent": 1},
    {"scope": "Cluster", "classes": ["Host"], "maxConcurrent": 9},
]


@dataclass(frozen=True)
class World:
    plane: EmbeddedPlane
    url: str

    def run(self, *words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        result = kubenode(*words, "--kubeconfig", self.plane.kubeconfig)
        assert result.returncode == code, result.stdout + result.stderr
        assert "Traceback" not in result.stderr
        return result

    def found(self, *words: str | Path, code: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run(*words, "-o", "json", code=code).stdout)
        return found


async def _asked(url: str, uids: Mapping[str, str], nodes: Sequence[str]) -> list[Verdict]:
    client = HttpPermits(url)
    try:
        return [await client.ask(_ask(node, uids[f"job-{node}"])) for node in nodes]
    finally:
        await client.close()


def _ask(node: str, uid: str) -> Ask:
    holder = Holder(kind="RemedyOperationJob", name=f"job-{node}", uid=uid)
    return Ask(operation=Operation.REPAIR, class_=Disruption.NODE, node=node, holder=holder)


def _ready(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail("Kube Defender was never ready")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """n0 of zone a has a permit, n6 of zone a was refused and waits."""
    nodes = [node_object(f"n{i}", {ZONE: "abcdef"[i % 6]}) for i in range(12)]
    pauses = [{"scope": "Node", "value": "n5", "by": "ann", "why": "cables"}]
    with EmbeddedPlane() as plane:
        assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
        jobs = [job_object(node, SystemClock().now(), phase="Running") for node in ("n0", "n6")]
        plane.api.load([*nodes, policy_object(limits=LIMITS, pauses=pauses), *jobs])
        made = plane.get("/apis/kubenode.io/v1alpha1/remedyoperationjobs")["items"]
        uids = {job["metadata"]["name"]: job["metadata"]["uid"] for job in made}
        listen, health = free_port(), free_port()
        url = f"http://127.0.0.1:{listen}"
        with started(
            "run", "defender", "--kubeconfig", plane.kubeconfig, "--no-lease",
            "--listen-port", str(listen), "--health-port", str(health),
        ):  # fmt: skip
            _ready(health)
            # what Kube Defender counts by may come a moment after it is ready
            until(lambda: asyncio.run(_asked(url, uids, ["n0"]))[0].allowed, "n0 has a permit", 30)
            _, second, _ = asyncio.run(_asked(url, uids, ["n0", "n6", "n6"]))
            assert not second.allowed
            yield World(plane, url)


class TestStatus:
    def test_the_queue_is_that_of_the_running_kube_defender(self, world: World) -> None:
        found = world.found("defender", "status", "--url", world.url)
        assert found["ready"] == "yes"
        assert found["from"]["queue"] == "Kube Defender"
        (waiting,) = found["queue"]
        assert (waiting["node"], waiting["place"]) == ("n6", 1)
        assert (waiting["reason"], waiting["scope"]) == ("ConcurrencyLimit", f"{ZONE}=a")
        assert (
            "Kube Defender is ready" in world.run("defender", "status", "--url", world.url).stdout
        )


class TestExplain:
    def test_every_limit_is_told_with_its_use_and_what_would_have_to_change(
        self, world: World
    ) -> None:
        found = world.found("defender", "explain", "n6", code=1)
        assert found["answer"]["reason"] == "ConcurrencyLimit"
        (no,) = found["against"]
        assert no["remedy"] == f"a permit of {ZONE}=a must come back: n0 (job-n0)"
        limits = {(row["scope"], row["kind"]): row for row in found["limits"]}
        assert limits[f"{ZONE}=a", "maxConcurrent"]["says"] == "no"
        assert limits["cluster", "maxConcurrent"]["says"] == "yes"
        assert (limits["cluster", "minHealthy"]["used"], len(limits)) == (11, 3)
        assert found["perNode"][0]["limit"] == 3
        assert {row["scope"] for row in found["breakers"]} == {"cluster", f"{ZONE}=a"}
        assert found["evictions"]["pods"] == 0

    def test_another_class_is_judged_by_its_own_limits(self, world: World) -> None:
        found = world.found("defender", "explain", "n6", "--class", "Host")
        assert found["answer"]["allowed"]
        assert [row["limit"] for row in found["limits"]] == [9]

    def test_with_a_url_the_place_in_the_queue_is_told(self, world: World) -> None:
        told = world.run("defender", "explain", "n6", "--url", world.url, code=1).stdout
        assert "the running Kube Defender says: no, ConcurrencyLimit" in told
        assert "RemedyOperationJob job-n6 waits since" in told
        assert f"place 1 for ConcurrencyLimit {ZONE}=a" in told
        assert "to change it: a permit of" in told

    def test_a_pause_is_told_with_who_and_why_and_how_to_end_it(self, world: World) -> None:
        told = world.run("defender", "explain", "n5", code=1).stdout
        assert "no, Paused: node=n5 is paused by ann: cables" in told
        assert "kubenode resume --scope node=n5" in told

    def test_a_node_that_is_not_there_is_named(self, world: World) -> None:
        assert "node n99 is not in" in world.run("defender", "explain", "n99", code=1).stderr
        assert "n99" in world.run("explain", "node", "n99", code=1).stderr

    def test_explain_node_tells_the_place_too(self, world: World) -> None:
        told = world.run("explain", "node", "n6", "--url", world.url).stdout
        assert "in Kube Defender's queue since" in told
        assert "place 1 of those that wait for ConcurrencyLimit of zone a" in told

    def test_explain_permit_tells_for_whom_and_where_it_counts(self, world: World) -> None:
        (permit,) = world.plane.get("/apis/kubenode.io/v1alpha1/permits")["items"]
        told = world.run("explain", "permit", permit["metadata"]["name"]).stdout
        assert "Repair of class Node on node n0" in told
        assert "held: the node may be disrupted" in told
        assert f"counts in cluster, {ZONE}=a" in told
        assert "RemedyOperationJob job-n0, phase Running" in told
        assert "there is no permit p9" in world.run("explain", "permit", "p9", code=1).stderr


class TestSimulate:
    def test_the_requests_that_kube_defender_remembers_are_played(
        self, world: World, tmp_path: Path
    ) -> None:
        file = tmp_path / "policy.yaml"
        limits = [{"scope": "Label", "label": ZONE, "maxConcurrent": 2}]
        file.write_text(json.dumps(policy_object(limits=limits)))
        found = world.found("defender", "simulate", "--policy", file, "--url", world.url)
        assert found["requests"] == 2
        assert (found["present"]["granted"], found["new"]["granted"]) == (1, 2)
        (different,) = found["differences"]
        assert different["node"] == "n6"
        assert different["present"] == f"not granted: ConcurrencyLimit {ZONE}=a"
        assert any(told.startswith("Kube Defender started at") for told in found["unknown"])
