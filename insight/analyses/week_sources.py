"""Which weeks of a period are read from roll-ups of weeks, and which days remain."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, Connection, Table, and_, false, or_

from insight.analyses.sources import Ranges, within
from insight.store.week_schema import LENGTHS, WEEK
from insight.store.week_store import WeekSpan, read_weeks


@dataclass(slots=True)
class WeekSources:
    """weeks: ranges of begins by length; days: ranges that no roll-up of weeks covers"""

    weeks: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    days: list[tuple[int, int]] = field(default_factory=list)

    def covers(self, table: Table) -> ColumnElement[bool]:
        """Return the condition on a table of roll-ups of weeks."""
        ranges = (
            and_(table.c.weeks == weeks, within(table.c.begin, each))
            for weeks, each in self.weeks.items()
        )
        return or_(false(), *ranges)


def find_weeks(
    connection: Connection, ranges: Ranges, lengths: Sequence[int] = LENGTHS
) -> WeekSources:
    return split_weeks(ranges, read_weeks(connection), lengths)


def split_weeks(
    ranges: Ranges, stored: Collection[WeekSpan], lengths: Sequence[int]
) -> WeekSources:
    """Cover the ranges with stored weeks, the longest first, and with days. Pure."""
    sources = WeekSources()
    for begin, end in ranges:
        _split(sources, (begin, end), stored, lengths)
    return sources


def _split(
    sources: WeekSources,
    whole: tuple[int, int],
    stored: Collection[WeekSpan],
    lengths: Sequence[int],
) -> None:
    begin, end = whole
    if begin >= end:
        return
    if not lengths:
        sources.days.append(whole)
        return
    weeks, *shorter = lengths
    inside = sorted(
        span.begin
        for span in stored
        if span.weeks == weeks and begin <= span.begin and span.end <= end
    )
    for monday in inside:
        _split(sources, (begin, monday), stored, shorter)
        begin = monday + weeks * WEEK
        _append(sources.weeks[weeks], monday, begin)
    _split(sources, (begin, end), stored, shorter)


def _append(ranges: list[tuple[int, int]], begin: int, end: int) -> None:
    """Append a range, as one with the last if they touch."""
    if ranges and ranges[-1][1] == begin:
        begin = ranges.pop()[0]
    ranges.append((begin, end))
