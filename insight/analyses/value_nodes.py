"""Faults and nodes by the value of a property, from the sets of nodes of each day.

Days that have no sets are read from roll-ups of nodes, and those without a roll-up from events.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

from sqlalchemy import Connection, select

from insight.analyses.interval import Interval
from insight.analyses.node_faults import node_faults
from insight.analyses.sources import PeriodSources, within
from insight.store.node_sets import IDENTITY, NodeSets, node_id, nodes_of, unpack_sets
from insight.store.rollup_schema import DayState, rollup_days
from insight.store.schema import DAY, milliseconds
from insight.store.week_schema import value_nodes

DaySets = tuple[int, NodeSets]
"""A day, and the nodes of one cluster by value."""
RestRow = tuple[str, int, int, int]
"""A value, a node, its faults, and those before the middle of the period."""


@dataclass(slots=True)
class ValueSum:
    """Faults with one value. early: those before the middle of the period"""

    faults: int = 0
    early: int = 0
    nodes: set[int] = field(default_factory=set)


def has_sets(sources: PeriodSources) -> bool:
    """Return whether the sets have the figures of a selection: any, or one of a cluster."""
    selection = sources.selection
    return bool(sources.rollups) and not (selection.rule or selection.fault_class)


def sum_values(
    connection: Connection, sources: PeriodSources, column: str, interval: Interval | None
) -> Iterator[tuple[int, dict[str, ValueSum]]]:
    """Yield the sums by value of each interval, of the whole period without one.

    column: of faults
    """
    rest: dict[int, list[RestRow]] = defaultdict(list)
    for start, row in _read_rest(connection, sources, column, interval):
        rest[start].append(row)
    middle = milliseconds(sources.selection.middle)
    days = read_sets(connection, sources, column)
    for start, entries in groupby(days, lambda entry: _start_of(entry[0], interval)):
        sums = _sum_rest(rest.pop(start, ()))
        for day, values in entries:
            for value, (count, nodes) in values.items():
                entry = sums[value]
                entry.faults += count
                entry.early += count if day < middle else 0
                entry.nodes.update(nodes_of(nodes))
        yield start, sums
    for start, others in rest.items():
        yield start, _sum_rest(others)


def read_sets(connection: Connection, sources: PeriodSources, column: str) -> Iterator[DaySets]:
    """Yield the sets of the period in the order of days."""
    query = select(value_nodes.c.day, value_nodes.c.nodes).where(
        value_nodes.c.property == column,
        *sources.selection.list_conditions(value_nodes, ("cluster",)),
        sources.covers_days(value_nodes),
    )
    for day, packed in connection.execute(query.order_by(value_nodes.c.day)):
        yield day, unpack_sets(packed)


def without_sets(connection: Connection, sources: PeriodSources, column: str) -> PeriodSources:
    """Return the sources of what the sets leave out."""
    known = select(value_nodes.c.day).where(value_nodes.c.property == column)
    query = select(rollup_days.c.day).where(
        rollup_days.c.state != DayState.PENDING,
        within(rollup_days.c.day, sources.rollups),
        rollup_days.c.day.not_in(known),
    )
    days = sorted(connection.execute(query).scalars())
    return replace(sources, rollups=tuple((day, day + DAY) for day in days))


def _read_rest(
    connection: Connection, sources: PeriodSources, column: str, interval: Interval | None
) -> Iterator[tuple[int, RestRow]]:
    """Yield what the sets leave out, with the begin of its interval."""
    nodes = node_faults(without_sets(connection, sources, column), (column,), interval)
    names = ("start", column, "faults", "early")
    query = select(*(nodes.c[name] for name in (*names, *IDENTITY)))
    for start, value, faults, early, *identity in connection.execute(query):
        yield int(start), (value, node_id(*identity), int(faults), int(early))


def _sum_rest(rows: Iterable[RestRow]) -> dict[str, ValueSum]:
    sums: dict[str, ValueSum] = defaultdict(ValueSum)
    for value, node, faults, early in rows:
        entry = sums[value]
        entry.faults += faults
        entry.early += early
        entry.nodes.add(node)
    return sums


def _start_of(day: int, interval: Interval | None) -> int:
    return interval.start_of(day) if interval is not None else 0
