"""Where the figures of a period come from: roll-ups of whole days, and events for the rest.

Events are read for days without a current roll-up, such as today, and for parts of days: those in
which the period begins and ends, and that of its middle. An archived day always comes whole from
its roll-up, because its events may be deleted. The figures of one node or job always come from
events.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Table, and_, false, or_, select

from insight.analyses.selection import HistorySelection
from insight.store.rollup_schema import DayState, rollup_days
from insight.store.schema import DAY, day_of, milliseconds

Ranges = tuple[tuple[int, int], ...]
"""Begins and ends in milliseconds; the end does not belong to the range."""


@dataclass(frozen=True, slots=True)
class PeriodSources:
    """events, rollups: ranges of the period that are read from either"""

    selection: HistorySelection
    events: Ranges
    rollups: Ranges = ()

    def covers_events(self, table: Table) -> ColumnElement[bool]:
        """Return the condition on rows of events."""
        return and_(self.selection.covers(table), within(table.c.time, self.events))

    def covers_days(self, facts: Table) -> ColumnElement[bool]:
        """Return the condition on the days of roll-ups."""
        return within(facts.c.day, self.rollups)


def find_sources(connection: Connection, selection: HistorySelection) -> PeriodSources:
    since, until = milliseconds(selection.since), milliseconds(selection.until)
    if selection.node or selection.job:
        return PeriodSources(selection, ((since, until),))
    states = _states(connection, since, until)
    parts = {day_of(at) for at in (since, until, milliseconds(selection.middle)) if at % DAY}
    pending = {day for day, state in states.items() if state == DayState.PENDING}
    archived = {day for day, state in states.items() if state == DayState.ARCHIVED}
    raw = sorted((pending | parts) - archived)
    events = [(max(day, since), min(day + DAY, until)) for day in raw]
    rollups = _gaps(raw, day_of(since), until)
    return PeriodSources(selection, _joined(events), rollups)


def _states(connection: Connection, since: int, until: int) -> dict[int, str]:
    """Return the states of the days of a period that are not current."""
    query = select(rollup_days.c.day, rollup_days.c.state).where(
        rollup_days.c.day >= day_of(since),
        rollup_days.c.day < until,
        rollup_days.c.state != DayState.CURRENT,
    )
    return {day: state for day, state in connection.execute(query)}


def _gaps(days: Iterable[int], begin: int, end: int) -> Ranges:
    """Return the ranges between days."""
    ranges = []
    for day in days:
        if begin < day:
            ranges.append((begin, day))
        begin = day + DAY
    if begin < end:
        ranges.append((begin, end))
    return tuple(ranges)


def _joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return sorted ranges with adjacent ones as one."""
    joined: list[tuple[int, int]] = []
    for begin, end in ranges:
        if joined and joined[-1][1] == begin:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((begin, end))
    return tuple(joined)


def within(column: ColumnElement[int], ranges: Sequence[tuple[int, int]]) -> ColumnElement[bool]:
    """Return the condition that a column is in any of the ranges."""
    if not ranges:
        return false()
    return or_(*(and_(column >= begin, column < end) for begin, end in ranges))
