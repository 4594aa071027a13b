"""How well rules heal: outcomes and times of closed jobs, by rule and by the last rung reached.

Jobs in phase Shadowed are left out, because they did nothing. A job has relapsed if a later job
names it as its previous one. A job has escalated if it ended above its first rung.
"""

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, case, exists, func, select

from insight.analyses.selection import HistorySelection
from insight.analyses.stage_times import STAGES, is_counted, stage_query
from insight.store.schema import faults, repairs


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


def summarize_healing(connection: Connection, selection: HistorySelection) -> list[HealingRow]:
    """Return the rows by rule and rung, in the order of their names."""
    stages: dict[tuple[str, str], dict[str, StageTime]] = {}
    for rule, rung, stage, jobs, p50, p95 in connection.execute(
        stage_query(
            selection, [repairs.c.rule.label("rule"), repairs.c.rung_name.label("rung")], STAGES
        )
    ):
        times = StageTime(jobs, p50 / 1000, p95 / 1000)
        stages.setdefault((rule, rung), {})[stage] = times
    rows = connection.execute(outcome_query(selection)).all()
    return [
        HealingRow(
            rule, rung, jobs, succeeded, failed, relapsed, escalated, stages.get((rule, rung), {})
        )
        for rule, rung, jobs, succeeded, failed, relapsed, escalated in rows
    ]


def outcome_query(selection: HistorySelection) -> Select[str, str, int, int, int, int, int]:
    relapsed = exists().where(
        faults.c.cluster == repairs.c.cluster, faults.c.previous == repairs.c.job
    )
    return (
        select(
            repairs.c.rule,
            repairs.c.rung_name,
            func.count(),
            count_if(repairs.c.phase == "Succeeded"),
            count_if(repairs.c.phase == "Failed"),
            count_if(relapsed),
            count_if(repairs.c.rung > repairs.c.start_rung),
        )
        .where(is_counted(selection))
        .group_by(repairs.c.rule, repairs.c.rung_name)
        .order_by(repairs.c.rule, repairs.c.rung_name)
    )


def count_if(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))
