"""Closed jobs of a period with histograms of their times, from roll-ups and events.

Percentiles of a period that roll-ups cover are at most `insight.store.histogram.ERROR` away from
the exact ones, in proportion. All counts are exact.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import msgspec
from sqlalchemy import ColumnElement, Connection, Table, and_, select

from insight.analyses.interval import Interval
from insight.analyses.selection import HistorySelection
from insight.analyses.sources import PeriodSources
from insight.analyses.week_sources import find_weeks
from insight.store.day_sums import RepairSum
from insight.store.histogram import HISTOGRAM_STAGES, histogram_of, percentiles_of, unpack
from insight.store.rollup_schema import repair_days, repair_groups
from insight.store.schema import day_of, repairs
from insight.store.stages import repair_query
from insight.store.week_schema import LENGTHS, repair_weeks

PERCENTILES = (50, 95)
K = TypeVar("K", bound=Hashable)


class StageTime(msgspec.Struct, frozen=True):
    """Seconds that a stage took, over `jobs` jobs."""

    jobs: int
    p50: float
    p95: float


class GroupDay(msgspec.Struct, frozen=True):
    """Closed jobs of a rule and last rung on a day, or in weeks that begin then.

    times: a histogram
    """

    rule: str
    rung: str
    day: int
    jobs: int
    succeeded: int
    failed: int
    relapsed: int
    escalated: int
    times: int


def read_repair_sums(
    connection: Connection, sources: PeriodSources, interval: Interval | None = None
) -> list[GroupDay] | None:
    """Return the sums; None without a roll-up, because events have the exact times.

    interval: no sum is over more than one of them
    """
    if not sources.rollups:
        return None
    weeks = find_weeks(connection, sources.rollups, _lengths(interval))
    days = replace(sources, rollups=tuple(weeks.days))
    return [
        *_from_rollups(connection, sources, repair_weeks, weeks.covers(repair_weeks)),
        *_from_rollups(connection, days, repair_days, days.covers_days(repair_days)),
        *_from_events(connection, sources),
    ]


def stage_times(
    sums: Iterable[GroupDay], key: Callable[[GroupDay], K]
) -> dict[K, dict[str, StageTime]]:
    """Return the times of the stages that have any, by key and stage."""
    histograms: dict[K, int] = defaultdict(int)
    for each in sums:
        histograms[key(each)] += each.times
    return {each: _percentiles(histogram) for each, histogram in histograms.items()}


def _percentiles(histogram: int) -> dict[str, StageTime]:
    times = {}
    for number, stage in enumerate(HISTOGRAM_STAGES):
        jobs, percentiles = percentiles_of(histogram, number, PERCENTILES)
        if jobs:
            times[stage] = StageTime(jobs, *(each / 1000 for each in percentiles))
    return times


def groups_of(selection: HistorySelection) -> ColumnElement[bool]:
    """Return the condition on the groups of repairs."""
    column, cluster = repair_groups.c.cluster, selection.cluster
    filters = selection.list_conditions(repair_groups, ("rule", "fault_class"))
    return and_(column == cluster if cluster else column.is_(None), *filters)


def _lengths(interval: Interval | None) -> Sequence[int]:
    """Return the lengths of weeks that are within an interval."""
    if interval is Interval.DAY:
        return ()
    return (1,) if interval is Interval.WEEK else LENGTHS


def _from_rollups(
    connection: Connection, sources: PeriodSources, facts: Table, condition: ColumnElement[bool]
) -> Iterator[GroupDay]:
    groups = repair_groups.c
    begin = facts.c.day if "day" in facts.c else facts.c.begin
    names = ("jobs", "succeeded", "failed", "relapsed", "escalated", "times")
    query = (
        select(groups.rule, groups.rung_name, begin, *(facts.c[name] for name in names))
        .join_from(repair_groups, facts, facts.c.group_id == groups.id)
        .where(groups_of(sources.selection), condition)
    )
    for rule, rung, day, *counts, times in connection.execute(query):
        jobs, succeeded, failed, relapsed, escalated = counts
        histogram = unpack(times)
        yield GroupDay(rule, rung, day, jobs, succeeded, failed, relapsed, escalated, histogram)


def _from_events(connection: Connection, sources: PeriodSources) -> Iterator[GroupDay]:
    sums: dict[tuple[str, str, int], RepairSum] = defaultdict(RepairSum)
    for row in connection.execute(repair_query(sources.covers_events(repairs))):
        sums[row.rule, row.rung_name, day_of(row.time)].add(row)
    for (rule, rung, day), each in sums.items():
        counts = each.jobs, each.succeeded, each.failed, each.relapsed, each.escalated
        yield GroupDay(rule, rung, day, *counts, histogram_of(each.lanes))
