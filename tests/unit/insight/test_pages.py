"""The pages of Insight: numbers equal a computation from the events, and only readers see them."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest
from sqlalchemy import Engine
from starlette.applications import Starlette
from support.asgi import Reply, request
from support.clock import FakeClock
from support.html_tables import read_tables
from support.insight_checks import (
    PERIOD as SELECTION,
)
from support.insight_checks import (
    closed,
    expected_faults,
    expected_healing,
    expected_incidents,
    expected_lemons,
    expected_outcomes,
    expected_stages,
    expected_sums,
    filled,
    opened,
)
from support.insight_history import opened_store
from support.insight_site import PERIOD, READER, SENDER, insight_app

from insight.analyses.faults import FaultProperty
from insight.analyses.interval import Interval
from insight.store.database import database_url, open_database
from kubenode.runtime.site.text import instant, seconds

TABLE = "Time, UTC, "


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = opened_store(f"sqlite:///{tmp_path_factory.mktemp('store')}/insight.db")
    filled(made)
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


@pytest.fixture
def app(engine: Engine, threads: ThreadPoolExecutor) -> Starlette:
    return insight_app(engine, now(), threads)


@pytest.fixture
def locked(engine: Engine, threads: ThreadPoolExecutor, tmp_path: Path) -> Starlette:
    """An application that only readers may use."""
    return insight_app(engine, now(), threads, folder=tmp_path)


def now() -> FakeClock:
    clock = FakeClock()
    clock.step(timedelta(days=30))
    return clock


async def get(app: Starlette, target: str) -> str:
    answer = await request(app, "GET", target)
    assert answer.status == 200, answer.body
    return answer.body.decode()


async def table(app: Starlette, target: str, headings: str) -> list[list[str]]:
    return read_tables(await get(app, target))[headings]


def headline(html: str) -> str:
    match = re.search(r"<h1>(.*?)</h1>", html)
    assert match is not None
    return match[1]


# -- numbers ---------------------------------------------------------------------------------------


async def test_overview_counts_faults_nodes_and_outcomes(app: Starlette) -> None:
    html = await get(app, f"/?{PERIOD}")
    nodes = {data.node.uid for _, data in opened()}
    assert headline(html) == f"{len(opened())} faults on {len(nodes)} nodes."
    phases = Counter(job.phase for job in closed())
    others = phases.total() - phases["Succeeded"] - phases["Failed"]
    sentence = f"{phases['Succeeded']} jobs succeeded, {phases['Failed']} failed, {others} ended"
    assert sentence in html
    outcomes = read_tables(html)[f"{TABLE}Succeeded, Failed"]
    expected = {row.start: (row.succeeded, row.failed) for row in expected_outcomes(Interval.DAY)}
    assert spread(outcomes) == {
        f"{start:%m-%d}": tuple(map(str, counts)) for start, counts in expected.items()
    }


def spread(rows: list[list[str]]) -> dict[str, tuple[str, ...]]:
    """Values by the first day of each interval, without those that are all zero or none.

    A row of a table covers all intervals in sequence with equal values. Here they are days of
    January.
    """
    values: dict[str, tuple[str, ...]] = {}
    for when, *cells in rows:
        first, last = (int(text.partition("-")[2]) for text in when.split(" to "))
        days = range(first, last if last > first else 32)
        values |= {f"01-{day:02}": tuple(cells) for day in days}
    return {day: cells for day, cells in values.items() if set(cells) - {"0", "none"}}


@pytest.mark.parametrize("by", FaultProperty)
async def test_faults_are_summed_by_value(app: Starlette, by: FaultProperty) -> None:
    name = by.replace("-", " ").capitalize()
    rows = await table(
        app, f"/faults?{PERIOD}&by={by}", f"{name}, Faults, Nodes, First half, Second half"
    )
    assert rows == [
        [row.value, *map(str, (row.faults, row.nodes, row.first_half, row.second_half))]
        for row in expected_sums(by)
    ]


async def test_plots_of_faults_show_each_day(app: Starlette) -> None:
    html = await get(app, f"/faults?{PERIOD}&by=zone")
    worst = expected_sums(FaultProperty.ZONE)[0].value
    figure = html.split("<figure")[1]
    assert f"<h3>{worst}</h3>" in figure
    rows = expected_faults(FaultProperty.ZONE, Interval.DAY)
    assert spread(read_tables(figure)[f"{TABLE}Faults"]) == {
        f"{row.start:%m-%d}": (str(row.faults),) for row in rows if row.value == worst
    }


async def test_values_beyond_the_plots_are_summed_in_one_more(app: Starlette) -> None:
    html = await get(app, f"/faults?{PERIOD}&by=rack")
    assert html.count("<figure") == len(expected_sums(FaultProperty.RACK)) == 5


async def test_healing_shows_outcomes_and_times_of_rungs(app: Starlette) -> None:
    html = await get(app, f"/healing?{PERIOD}")
    columns = ("Detect", "Permit", "Drain", "Act", "Prove")
    headings = "Rule, Rung, Jobs, Succeeded, Failed, Relapsed, Escalated, " + ", ".join(
        f"{name}, p50 / p95" for name in columns
    )
    expected = []
    for row in expected_healing():
        counts = (row.jobs, row.succeeded, row.failed, row.relapsed, row.escalated)
        times = [row.stages.get(name.lower()) for name in columns]
        cells = [f"{seconds(t.p50)} / {seconds(t.p95)}" if t else "" for t in times]
        expected.append([row.rule, row.rung, *map(str, counts), *cells])
    assert read_tables(html)[headings] == expected


async def test_plots_of_healing_show_percentiles_of_each_day(app: Starlette) -> None:
    html = await get(app, f"/healing?{PERIOD}")
    figures = html.split("<figure")[1:]
    names = ("heal", "detect", "permit", "drain", "act", "prove")
    for figure, name in zip(figures, names, strict=True):
        rows = [row for row in expected_stages(Interval.DAY) if row.stage == name]
        assert spread(read_tables(figure)[f"{TABLE}p50, p95"]) == {
            f"{row.start:%m-%d}": (seconds(row.p50), seconds(row.p95)) for row in rows
        }


async def test_lemons_are_listed_with_their_evidence(app: Starlette) -> None:
    html = await get(app, f"/lemons?{PERIOD}&min=8")
    rows = read_tables(html)
    listed = rows["Node, Cluster, Faults, Relapses, Failed, Classes, First, Last"]
    assert listed == [
        [
            *(row.node, row.cluster, str(row.faults), str(row.relapses), str(row.failed)),
            ", ".join(f"{name} {count}" for name, count in sorted(row.classes.items())),
            *(instant(row.first), instant(row.last)),
        ]
        for row in expected_lemons(8)
    ]
    per_node = Counter(Counter(data.node.uid for _, data in opened()).values())
    names = [*map(str, range(1, 10)), "10 or more"]
    counts = [per_node[n] for n in range(1, 10)]
    counts.append(sum(nodes for faults, nodes in per_node.items() if faults >= 10))
    assert rows["Faults, Nodes"] == [
        list(each) for each in zip(names, map(str, counts), strict=True)
    ]


async def test_incidents_are_the_latest(app: Starlette) -> None:
    headings = "Job, Node, Cluster, Fault class, Rule, Opened, Result, Last rung, Time to heal"
    assert await table(app, f"/incidents?{PERIOD}", headings) == [
        [
            *(row.job, row.node, row.cluster, row.fault_class, row.rule, instant(row.opened)),
            *(row.phase or "open", row.rung),
            "" if row.heal_seconds is None else seconds(row.heal_seconds),
        ]
        for row in expected_incidents(100)
    ]


async def test_incident_tells_everything_in_order_and_what_worked(app: Starlette) -> None:
    row = next(row for row in expected_incidents(100) if row.heal_seconds is not None)
    html = await get(app, f"/incidents/{row.uid}")
    assert row.heal_seconds is not None
    assert headline(html) == f"{row.job} healed {row.node} in {seconds(row.heal_seconds)}."
    tables = read_tables(html)
    kinds = [cells[2] for cells in tables["Time, After, Kind, What happened"]]
    assert kinds == ["Signal", "Opened", "Step", "Verified", "Closed"]
    assert tables["Last rung, Jobs, Succeeded"]
    assert 'href="/incidents/uid-' in html


async def test_relapse_and_the_job_before_it_link_to_each_other(app: Starlette) -> None:
    _, data = next(each for each in opened() if each[1].previous)
    before = data.previous.replace("job-", "uid-")
    assert f'href="/incidents/{before}"' in await get(app, f"/incidents/{data.job.uid}")
    assert f'href="/incidents/{data.job.uid}"' in await get(app, f"/incidents/{before}")


async def test_incident_is_reached_by_the_name_of_its_job(app: Starlette) -> None:
    answer = await request(app, "GET", "/incidents/job-3")
    assert (answer.status, answer.headers["location"]) == (303, "/incidents/uid-3")
    assert (await request(app, "GET", "/incidents/a\x00b")).status == 404
    missing = await request(app, "GET", "/incidents/nothing")
    assert missing.status == 404
    assert b"no event of an incident" in missing.body


# -- filters and files -----------------------------------------------------------------------------


async def test_csv_has_the_rows_of_the_page(app: Starlette) -> None:
    html = await get(app, f"/faults?{PERIOD}&by=kernel")
    match = re.search(r'href="(/csv/fault-sums\?[^"]*)"', html)
    assert match is not None
    text = await get(app, match[1].replace("&amp;", "&"))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["value"], int(row["faults"])) for row in rows] == [
        (row.value, row.faults) for row in expected_sums(FaultProperty.KERNEL)
    ]


@pytest.mark.parametrize(
    "name", ["faults", "healing", "outcomes", "stages", "lemons", "node-counts", "incidents"]
)
async def test_every_table_has_a_file(app: Starlette, name: str) -> None:
    answer = await request(app, "GET", f"/csv/{name}?{PERIOD}")
    assert f'filename="{name}.csv"' in answer.headers["content-disposition"]
    assert len(answer.body.splitlines()) > 2


async def test_filters_of_the_address_fill_the_form_and_narrow_down(app: Starlette) -> None:
    html = await get(app, f"/faults?{PERIOD}&class=gpu_lost&by=kernel")
    count = sum(data.job.fault_class == "gpu_lost" for _, data in opened())
    assert headline(html) == f"{count} faults by kernel."
    assert 'name="class" value="gpu_lost"' in html
    assert '<option value="kernel" selected>' in html


async def test_period_is_the_last_days_of_the_address(app: Starlette) -> None:
    html = await get(app, "/?days=1")
    assert "From <time" in html
    assert html.count("2026-01-30 12:00:00 UTC") >= 1
    assert SELECTION.until.isoformat().startswith("2026-01-31T12:00")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("/faults?by=colour", "by: is &#39;colour&#39;"),
        ("/?days=many", "days: is"),
        ("/healing?days=3000&every=day", "more than 800 intervals of a day"),
        ("/csv/faults?until=x", "until: is"),
    ],
)
async def test_bad_parameter_is_explained(app: Starlette, target: str, message: str) -> None:
    answer = await request(app, "GET", target)
    assert answer.status == 400
    assert message in answer.body.decode()


async def test_values_are_escaped(app: Starlette) -> None:
    query = urlencode({"rule": "<script>alert(1)</script>"})
    html = await get(app, f"/faults?{query}")
    assert "<script" not in html
    assert "&lt;script&gt;" in html


async def test_store_that_is_away_is_explained(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    away = open_database(database_url(f"sqlite:///{tmp_path}/none/insight.db"))
    answer = await request(insight_app(away, now(), threads), "GET", "/")
    assert (answer.status, b"Not available now" in answer.body) == (503, True)


# -- who may see them ------------------------------------------------------------------------------


def cookie_of(answer: Reply) -> dict[str, str]:
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


async def log_in(app: Starlette, token: str, to: str = "/faults?by=zone") -> Reply:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    body = urlencode({"token": token, "to": to}).encode()
    return await request(app, "POST", "/login", body, headers)


@pytest.mark.parametrize("target", ["/", "/faults?by=zone", "/incidents/uid-1", "/csv/lemons"])
async def test_unknown_caller_is_sent_to_the_login_and_back(locked: Starlette, target: str) -> None:
    answer = await request(locked, "GET", target)
    assert answer.status == 303
    assert answer.headers["location"].startswith("/login")


async def test_reader_logs_in_and_out(locked: Starlette) -> None:
    answer = await log_in(locked, READER)
    assert (answer.status, answer.headers["location"]) == (303, "/faults?by=zone")
    assert "httponly" in answer.headers["set-cookie"].lower()
    cookie = cookie_of(answer)
    page = await request(locked, "GET", "/", b"", cookie)
    match = re.search(rb'name="form_token" value="([0-9a-f]+)"', page.body)
    assert page.status == 200 and match is not None
    headers = cookie | {"content-type": "application/x-www-form-urlencoded"}
    forged = await request(locked, "POST", "/logout", b"form_token=x", headers)
    assert forged.status == 403
    await request(locked, "POST", "/logout", b"form_token=" + match[1], headers)
    assert (await request(locked, "GET", "/", b"", cookie)).status == 303


@pytest.mark.parametrize("token", ["", "x" * 32, SENDER])
async def test_only_a_reader_logs_in(locked: Starlette, token: str) -> None:
    answer = await log_in(locked, token)
    assert (answer.status, "set-cookie" in answer.headers) == (401, False)


async def test_many_failures_must_wait(locked: Starlette) -> None:
    answers = [await log_in(locked, "x" * 32) for _ in range(6)]
    assert [answer.status for answer in answers] == [401] * 5 + [429]


async def test_token_that_is_withdrawn_ends_the_login(
    engine: Engine, threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    clock = now()
    app = insight_app(engine, clock, threads, folder=tmp_path)
    cookie = cookie_of(await log_in(app, READER))
    (tmp_path / "readers").write_text("another-token-of-a-reader\n")
    clock.step(timedelta(seconds=5))
    assert (await request(app, "GET", "/", b"", cookie)).status == 303


async def test_login_leads_to_no_other_host(locked: Starlette) -> None:
    assert (await log_in(locked, READER, "//evil.example/")).headers["location"] == "/"


async def test_bearer_token_reads_a_file(locked: Starlette) -> None:
    headers = {"authorization": f"Bearer {READER}"}
    assert (await request(locked, "GET", "/csv/lemons", b"", headers)).status == 200


async def test_pages_forbid_foreign_content(locked: Starlette) -> None:
    for target in ("/", "/login", "/static/style.css"):
        answer = await request(locked, "GET", target)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
