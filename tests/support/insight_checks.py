"""The analyses computed from the raw events in plain Python, apart from the queries."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine
from support.clock import T0
from support.insight_history import history, received
from support.insight_loads import emptied

from insight.analyses.faults import (
    FaultProperty,
    FaultRow,
    FaultSum,
    count_faults,
    sum_faults,
)
from insight.analyses.incidents import MOST_INCIDENTS, IncidentRow, list_incidents, read_incident
from insight.analyses.interval import Interval
from insight.analyses.lemons import LemonRow, count_by_faults, list_lemons, sum_nodes
from insight.analyses.repair_outcomes import HealingRow, summarize_healing
from insight.analyses.repair_sums import StageTime
from insight.analyses.selection import HistorySelection
from insight.analyses.trend import OutcomeRow, StageRow, count_outcomes, measure_stages
from insight.store.event_store import EventStore
from kubenode.runtime.stream.model import JobClosed, JobOpened, StreamEvent

EVENTS = list(history(incidents=300, seed=11, nodes=25, days=40))
PERIOD = HistorySelection(T0 + timedelta(days=5), T0 + timedelta(days=30))


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


def stages(
    jobs: Sequence[JobClosed], all_instants: Mapping[str, Stage] = STAGE_INSTANTS
) -> dict[str, StageTime]:
    result = {}
    for name, instants in all_instants.items():
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


def expected_sums(by: FaultProperty) -> list[FaultSum]:
    groups: dict[str, list[tuple[datetime, str]]] = defaultdict(list)
    for at, data in opened():
        groups[PROPERTIES[by](data)].append((at, data.node.uid))
    middle = PERIOD.since + (PERIOD.until - PERIOD.since) / 2
    rows = []
    for value, entries in groups.items():
        early = sum(at < middle for at, _ in entries)
        nodes = len({node for _, node in entries})
        rows.append(FaultSum(value, len(entries), nodes, early, len(entries) - early))
    return sorted(rows, key=lambda row: (-row.faults, row.value))


def check_sums(engine: Engine, by: FaultProperty) -> None:
    with engine.connect() as connection:
        rows = sum_faults(connection, PERIOD, by)
        nodes = len(sum_nodes(connection, PERIOD))
    assert rows == expected_sums(by)
    assert nodes == len({data.node.uid for _, data in opened()})


# -- trend -----------------------------------------------------------------------------------------

TREND_INSTANTS: dict[str, Stage] = STAGE_INSTANTS | {
    "heal": lambda job: (job.first_true, job.verified)
}


def closed_by(interval: Interval) -> dict[datetime, list[JobClosed]]:
    groups: dict[datetime, list[JobClosed]] = defaultdict(list)
    for each in EVENTS:
        if _in_period(each) and isinstance(each.data, JobClosed) and each.data.phase != "Shadowed":
            groups[start_of(each.time, interval)].append(each.data)
    return groups


def expected_outcomes(interval: Interval) -> list[OutcomeRow]:
    return [
        OutcomeRow(
            start,
            len(jobs),
            sum(job.phase == "Succeeded" for job in jobs),
            sum(job.phase == "Failed" for job in jobs),
        )
        for start, jobs in sorted(closed_by(interval).items())
    ]


def expected_stages(interval: Interval) -> list[StageRow]:
    return [
        StageRow(start, name, times.jobs, times.p50, times.p95)
        for start, jobs in sorted(closed_by(interval).items())
        for name, times in sorted(stages(jobs, TREND_INSTANTS).items())
    ]


def check_trend(engine: Engine, interval: Interval) -> None:
    with engine.connect() as connection:
        outcomes = count_outcomes(connection, PERIOD, interval)
        times = measure_stages(connection, PERIOD, interval)
    assert outcomes == expected_outcomes(interval)
    assert times == expected_stages(interval)
    assert {row.stage for row in times} == set(TREND_INSTANTS)


# -- incidents -------------------------------------------------------------------------------------


def expected_incidents(most: int) -> list[IncidentRow]:
    ends = {e.data.job.uid: (e.time, e.data) for e in EVENTS if isinstance(e.data, JobClosed)}
    rows = []
    for at, data in opened():
        end, result = ends.get(data.job.uid, (None, None))
        healed = result.verified if result is not None else None
        rows.append(
            IncidentRow(
                data.job.uid,
                "prod",
                data.job.name,
                data.node.name,
                data.job.rule,
                data.job.fault_class,
                at,
                end,
                result.phase if result is not None else "",
                result.rung_name if result is not None else "",
                (healed - data.first_true).total_seconds() if healed is not None else None,
            )
        )
    return sorted(rows, key=lambda row: row.opened, reverse=True)[:most]


def check_incidents(engine: Engine) -> None:
    with engine.connect() as connection:
        rows = list_incidents(connection, PERIOD)
        longest = max(rows, key=lambda row: row.heal_seconds or 0)
        incident = read_incident(connection, longest.uid)
    assert rows == expected_incidents(len(rows))
    assert len(rows) == MOST_INCIDENTS
    assert incident is not None and incident.closed is not None
    every = [event for event in EVENTS if event.id.startswith(f"{longest.uid}/")]
    assert {moment.at for moment in incident.moments} >= {event.time for event in every}
    others = [
        event.data
        for event in EVENTS
        if isinstance(event.data, JobClosed)
        and event.data.job.rule == longest.rule
        and event.data.job.fault_class == longest.fault_class
        and event.data.job.uid != longest.uid
        and event.data.phase != "Shadowed"
    ]
    jobs = Counter(job.rung_name for job in others)
    healed = Counter(job.rung_name for job in others if job.phase == "Succeeded")
    assert {row.rung: (row.jobs, row.succeeded) for row in incident.rungs} == {
        rung: (count, healed[rung]) for rung, count in jobs.items()
    }


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
    with engine.connect() as connection:
        nodes = count_by_faults(sum_nodes(connection, PERIOD))
    assert nodes == Counter(Counter(data.node.uid for _, data in opened()).values())
