"""How well rules heal: outcomes and times of closed jobs, by rule and by the last rung reached.

Jobs in phase Shadowed are left out, because they did nothing. A job has relapsed if a later job
names it as its previous one. A job has escalated if it ended above its first rung. Times are
percentiles by the nearest rank; jobs without the two instants of a time do not count in it.
"""

import msgspec
from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    exists,
    func,
    literal,
    select,
    union_all,
)

from insight.analyses.period import Period
from insight.store.schema import faults, repairs

SHADOWED = "Shadowed"
STAGES: dict[str, tuple[ColumnElement[int], ColumnElement[int]]] = {
    "detect": (repairs.c.first_true, repairs.c.job_created),
    "permit": (repairs.c.job_created, repairs.c.permit_granted),
    "drain": (repairs.c.permit_granted, repairs.c.drained),
    "act": (
        func.coalesce(repairs.c.drained, repairs.c.permit_granted, repairs.c.job_created),
        repairs.c.acted,
    ),
    "prove": (repairs.c.acted, repairs.c.verified),
}
"""Begin and end of each stage of a repair."""
PERCENTILES = (50, 95)


class StageTime(msgspec.Struct, frozen=True):
    """Seconds that a stage took, over `jobs` jobs."""

    jobs: int
    p50: float
    p95: float


class HealingRow(msgspec.Struct, rename="camel", frozen=True):
    rule: str
    rung: str
    jobs: int
    succeeded: int
    failed: int
    relapsed: int
    escalated: int
    stages: dict[str, StageTime] = {}


def healing(connection: Connection, period: Period) -> list[HealingRow]:
    """Return the rows by rule and rung, in the order of their names."""
    stages: dict[tuple[str, str], dict[str, StageTime]] = {}
    for rule, rung, stage, jobs, p50, p95 in connection.execute(stage_query(period)):
        times = StageTime(jobs, p50 / 1000, p95 / 1000)
        stages.setdefault((rule, rung), {})[stage] = times
    rows = connection.execute(outcome_query(period)).all()
    return [
        HealingRow(
            rule, rung, jobs, succeeded, failed, relapsed, escalated, stages.get((rule, rung), {})
        )
        for rule, rung, jobs, succeeded, failed, relapsed, escalated in rows
    ]


def _is_counted(period: Period) -> ColumnElement[bool]:
    return and_(period.covers(repairs), repairs.c.phase != SHADOWED)


def outcome_query(period: Period) -> Select[str, str, int, int, int, int, int]:
    relapsed = exists().where(
        faults.c.cluster == repairs.c.cluster, faults.c.previous == repairs.c.job
    )
    return (
        select(
            repairs.c.rule,
            repairs.c.rung_name,
            func.count(),
            _count(repairs.c.phase == "Succeeded"),
            _count(repairs.c.phase == "Failed"),
            _count(relapsed),
            _count(repairs.c.rung > repairs.c.start_rung),
        )
        .where(_is_counted(period))
        .group_by(repairs.c.rule, repairs.c.rung_name)
        .order_by(repairs.c.rule, repairs.c.rung_name)
    )


def stage_query(period: Period) -> Select[str, str, str, int, int, int]:
    ranked = _ranked(period)
    group = (ranked.c.rule, ranked.c.rung_name, ranked.c.stage)
    return select(
        *group, func.max(ranked.c.jobs), *(_percentile(ranked, p) for p in PERCENTILES)
    ).group_by(*group)


def _ranked(period: Period) -> CTE:
    """Rank the time of each stage of each job within its rule, rung and stage."""
    times = union_all(
        *(
            select(
                repairs.c.rule,
                repairs.c.rung_name,
                literal(stage).label("stage"),
                (end - begin).label("time"),
            ).where(_is_counted(period), end >= begin)
            for stage, (begin, end) in STAGES.items()
        )
    ).cte("times")
    group = (times.c.rule, times.c.rung_name, times.c.stage)
    rank = func.row_number().over(partition_by=group, order_by=times.c.time)
    jobs = func.count().over(partition_by=group)
    return select(*group, times.c.time, rank.label("rank"), jobs.label("jobs")).cte("ranked")


def _percentile(ranked: CTE, percent: int) -> ColumnElement[int]:
    rank = (ranked.c.jobs * percent + 99) // 100
    return func.max(case((ranked.c.rank == rank, ranked.c.time)))


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))
