"""How healing changes over time: outcomes and times of closed jobs by the interval of their end."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, func, select

from insight.analyses.interval import Interval
from insight.analyses.repair_outcomes import count_if
from insight.analyses.repair_sums import GroupDay, groups_of, read_repair_sums, stage_times
from insight.analyses.selection import HistorySelection
from insight.analyses.sources import PeriodSources, find_sources
from insight.analyses.stage_times import is_counted, stage_query
from insight.store.rollup_schema import repair_days, repair_groups
from insight.store.schema import instant, repairs
from insight.store.stages import STAGES, WHOLE


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
    sources = find_sources(connection, selection)
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for query in (_outcomes_of_events(sources, interval), _outcomes_of_rollups(sources, interval)):
        for start, *figures in connection.execute(query):
            for n, figure in enumerate(figures):
                counts[start][n] += int(figure)
    return [
        OutcomeRow(instant(start), *(figures[n] for n in range(3)))
        for start, figures in sorted(counts.items())
    ]


def measure_stages(
    connection: Connection, selection: HistorySelection, interval: Interval
) -> list[StageRow]:
    """Return the rows in the order of time and stage: those of repairs, and `heal` for all."""
    sources = find_sources(connection, selection)
    sums = read_repair_sums(connection, sources, interval)
    return measure_sources(connection, sources, sums, interval)


def measure_sources(
    connection: Connection,
    sources: PeriodSources,
    sums: Sequence[GroupDay] | None,
    interval: Interval,
) -> list[StageRow]:
    """Return the rows. sums: of `read_repair_sums`"""
    if sums is not None:
        times = stage_times(sums, _start_of(interval))
        return [
            StageRow(instant(begin), stage, time.jobs, time.p50, time.p95)
            for begin, stages in sorted(times.items())
            for stage, time in sorted(stages.items())
        ]
    start = interval.start(repairs.c.time).label("start")
    rows = connection.execute(stage_query(sources, [start], {**STAGES, **WHOLE}))
    return [
        StageRow(instant(begin), stage, jobs, p50 / 1000, p95 / 1000)
        for begin, stage, jobs, p50, p95 in rows
    ]


def _start_of(interval: Interval) -> Callable[[GroupDay], int]:
    return lambda each: interval.start_of(each.day)


def _outcomes_of_events(sources: PeriodSources, interval: Interval) -> Select[*tuple[Any, ...]]:
    start = interval.start(repairs.c.time).label("start")
    outcomes = (count_if(repairs.c.phase == phase) for phase in ("Succeeded", "Failed"))
    return select(start, func.count(), *outcomes).where(is_counted(sources)).group_by(start)


def _outcomes_of_rollups(sources: PeriodSources, interval: Interval) -> Select[*tuple[Any, ...]]:
    start = interval.start(repair_days.c.day).label("start")
    sums = (func.sum(repair_days.c[name]) for name in ("jobs", "succeeded", "failed"))
    return (
        select(start, *sums)
        .join_from(repair_groups, repair_days, repair_days.c.group_id == repair_groups.c.id)
        .where(groups_of(sources.selection), sources.covers_days(repair_days))
        .group_by(start)
    )
