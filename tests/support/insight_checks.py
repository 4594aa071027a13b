"""The analyses computed from the raw events in plain Python, apart from the queries."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine
from support.clock import T0
from support.insight_history import history, received
from support.insight_loads import emptied

from insight.analyses.faults import FaultProperty, FaultRow, count_faults
from insight.analyses.interval import Interval
from insight.analyses.lemons import LemonRow, list_lemons
from insight.analyses.repair_outcomes import HealingRow, StageTime, summarize_healing
from insight.analyses.selection import Selection
from insight.store.event_store import EventStore
from kubenode.runtime.stream.model import JobClosed, JobOpened, StreamEvent

EVENTS = list(history(incidents=300, seed=11, nodes=25, days=40))
PERIOD = Selection(T0 + timedelta(days=5), T0 + timedelta(days=30))


def filled(engine: Engine) -> None:
    emptied(engine)
    store = EventStore(engine, timedelta(days=3650))
    store.load(received(EVENTS), T0 + timedelta(days=50))


def _in_period(event: StreamEvent) -> bool:
    return PERIOD.since <= event.time < PERIOD.until


def opened() -> list[tuple[datetime, JobOpened]]:
    return [(e.time, e.data) for e in EVENTS if _in_period(e) and isinstance(e.data, JobOpened)]


def closed() -> list[JobClosed]:
    data = [e.data for e in EVENTS if _in_period(e) and isinstance(e.data, JobClosed)]
    return [each for each in data if each.phase != "Shadowed"]


# -- healing ---------------------------------------------------------------------------------------


def expected_healing() -> list[HealingRow]:
    previous = {e.data.previous for e in EVENTS if isinstance(e.data, JobOpened)}
    groups: dict[tuple[str, str], list[JobClosed]] = defaultdict(list)
    for job in closed():
        groups[job.job.rule, job.rung_name].append(job)
    return [
        HealingRow(
            rule,
            rung,
            len(jobs),
            sum(job.phase == "Succeeded" for job in jobs),
            sum(job.phase == "Failed" for job in jobs),
            sum(job.job.name in previous for job in jobs),
            sum(job.rung > job.start_rung for job in jobs),
            stages(jobs),
        )
        for (rule, rung), jobs in sorted(groups.items())
    ]


Stage = Callable[[JobClosed], tuple[datetime | None, datetime | None]]
STAGE_INSTANTS: dict[str, Stage] = {
    "detect": lambda job: (job.first_true, job.job_created),
    "permit": lambda job: (job.job_created, job.permit_granted),
    "drain": lambda job: (job.permit_granted, job.drained),
    "act": lambda job: (job.drained or job.permit_granted or job.job_created, job.acted),
    "prove": lambda job: (job.acted, job.verified),
}


def stages(jobs: Sequence[JobClosed]) -> dict[str, StageTime]:
    result = {}
    for name, instants in STAGE_INSTANTS.items():
        pairs = [instants(job) for job in jobs]
        times = sorted((end - begin).total_seconds() for begin, end in pairs if begin and end)
        if times:
            result[name] = StageTime(len(times), nearest(times, 0.5), nearest(times, 0.95))
    return result


def nearest(ordered: Sequence[float], share: float) -> float:
    return ordered[math.ceil(round(share * len(ordered), 9)) - 1]


def check_healing(engine: Engine) -> None:
    with engine.connect() as connection:
        rows = summarize_healing(connection, PERIOD)
    assert rows == expected_healing()
    assert len(rows) == 9
    assert any(row.relapsed for row in rows) and any(row.escalated for row in rows)


# -- faults ----------------------------------------------------------------------------------------

PROPERTIES: dict[FaultProperty, Callable[[JobOpened], str]] = {
    FaultProperty.CLASS: lambda data: data.job.fault_class,
    FaultProperty.RULE: lambda data: data.job.rule,
    FaultProperty.SEVERITY: lambda data: data.job.severity,
    FaultProperty.CLUSTER: lambda data: "prod",
    FaultProperty.ZONE: lambda data: data.node.zone,
    FaultProperty.RACK: lambda data: data.node.rack,
    FaultProperty.MACHINE_TYPE: lambda data: data.node.machine_type,
    FaultProperty.IMAGE: lambda data: data.node.image,
    FaultProperty.KERNEL: lambda data: data.node.kernel,
}


def start_of(at: datetime, interval: Interval) -> datetime:
    midnight = datetime(at.year, at.month, at.day, tzinfo=UTC)
    return midnight - timedelta(days=at.weekday() if interval is Interval.WEEK else 0)


def expected_faults(by: FaultProperty, interval: Interval) -> list[FaultRow]:
    groups: dict[tuple[datetime, str], list[str]] = defaultdict(list)
    for at, data in opened():
        groups[start_of(at, interval), PROPERTIES[by](data)].append(data.node.uid)
    return [
        FaultRow(start, value, len(nodes), len(set(nodes)))
        for (start, value), nodes in sorted(groups.items())
    ]


def check_faults(engine: Engine, by: FaultProperty, interval: Interval) -> None:
    with engine.connect() as connection:
        rows = count_faults(connection, PERIOD, by, interval)
    assert rows == expected_faults(by, interval)
    assert len(rows) >= 4


# -- lemons ----------------------------------------------------------------------------------------


def expected_lemons(least: int) -> list[LemonRow]:
    by_node: dict[str, list[tuple[datetime, JobOpened]]] = defaultdict(list)
    for at, data in opened():
        by_node[data.node.uid].append((at, data))
    failed = Counter(job.node.uid for job in closed() if job.phase == "Failed")
    rows = [
        LemonRow(
            "prod",
            incidents[0][1].node.name,
            uid,
            len(incidents),
            sum(data.previous != "" for _, data in incidents),
            failed[uid],
            dict(Counter(data.job.fault_class for _, data in incidents)),
            min(at for at, _ in incidents),
            max(at for at, _ in incidents),
        )
        for uid, incidents in by_node.items()
        if len(incidents) >= least
    ]
    return sorted(rows, key=lambda row: (-row.faults, -row.relapses, row.node))


def check_lemons(engine: Engine) -> None:
    with engine.connect() as connection:
        rows = list_lemons(connection, PERIOD, 8)
        everybody = list_lemons(connection, PERIOD, 1)
    assert rows == expected_lemons(8)
    assert 0 < len(rows) < len(everybody)
    assert any(row.failed for row in rows)
