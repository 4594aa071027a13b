"""How healing changes over time: outcomes and times of closed jobs by the interval of their end."""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, case, func, select

from insight.analyses.interval import Interval
from insight.analyses.selection import HistorySelection
from insight.analyses.stage_times import STAGES, WHOLE, is_counted, stage_query
from insight.store.schema import instant, repairs


class OutcomeRow(msgspec.Struct, rename="camel", frozen=True):
    """Jobs that closed in an interval. The others were cancelled."""

    start: datetime
    jobs: int
    succeeded: int
    failed: int


class StageRow(msgspec.Struct, rename="camel", frozen=True):
    """Seconds that a stage took, over `jobs` jobs that closed in an interval."""

    start: datetime
    stage: str
    jobs: int
    p50: float
    p95: float


def count_outcomes(
    connection: Connection, selection: HistorySelection, interval: Interval
) -> list[OutcomeRow]:
    """Return the rows in the order of time. An interval without closed jobs has none."""
    rows = connection.execute(outcome_query(selection, interval))
    return [OutcomeRow(instant(start), *counts) for start, *counts in rows]


def measure_stages(
    connection: Connection, selection: HistorySelection, interval: Interval
) -> list[StageRow]:
    """Return the rows in the order of time and stage: those of repairs, and `heal` for all."""
    start = interval.start(repairs.c.time).label("start")
    rows = connection.execute(stage_query(selection, [start], {**STAGES, **WHOLE}))
    return [
        StageRow(instant(begin), stage, jobs, p50 / 1000, p95 / 1000)
        for begin, stage, jobs, p50, p95 in rows
    ]


def outcome_query(selection: HistorySelection, interval: Interval) -> Select[*tuple[Any, ...]]:
    start = interval.start(repairs.c.time).label("start")
    succeeded, failed = (
        func.sum(case((repairs.c.phase == phase, 1), else_=0)) for phase in ("Succeeded", "Failed")
    )
    return (
        select(start, func.count(), succeeded, failed)
        .where(is_counted(selection))
        .group_by(start)
        .order_by(start)
    )
