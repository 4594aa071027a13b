"""How many faults there were, over time, by a property of the fault or its node.

A fault is an opened job, in any mode. The properties of a node are those at the time of the fault.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Subquery,
    cast,
    func,
    literal,
    select,
    true,
)

from insight.analyses.interval import Interval
from insight.analyses.node_faults import node_faults
from insight.analyses.selection import HistorySelection
from insight.analyses.sources import PeriodSources, find_sources
from insight.analyses.value_nodes import has_sets, read_sets, sum_values, without_sets
from insight.store.node_sets import IDENTITY
from insight.store.rollup_schema import value_days, value_groups
from insight.store.schema import faults, instant


class FaultProperty(StrEnum):
    """What faults are counted by."""

    CLASS = "class"
    RULE = "rule"
    SEVERITY = "severity"
    CLUSTER = "cluster"
    ZONE = "zone"
    RACK = "rack"
    MACHINE_TYPE = "machine-type"
    IMAGE = "image"
    KERNEL = "kernel"


COLUMNS = {
    FaultProperty.CLASS: "fault_class",
    FaultProperty.MACHINE_TYPE: "machine_type",
}
"""Columns by property, where the names differ."""


class FaultRow(msgspec.Struct, rename="camel", frozen=True):
    start: datetime
    value: str
    faults: int
    nodes: int


class FaultSum(msgspec.Struct, rename="camel", frozen=True):
    """Faults of one value. first_half, second_half: faults in the halves of the period."""

    value: str
    faults: int
    nodes: int
    first_half: int
    second_half: int


class ValueCount(msgspec.Struct, frozen=True):
    """Faults with one value in an interval. value: None for all that are not named"""

    start: datetime
    value: str | None
    faults: int


def count_faults(
    connection: Connection, selection: HistorySelection, by: FaultProperty, interval: Interval
) -> list[FaultRow]:
    """Return the rows in the order of time and value. A time without faults has no row."""
    sources, column = find_sources(connection, selection), column_of(by)
    if has_sets(sources):
        ordered = sorted(
            (start, value, each.faults, len(each.nodes), each.early)
            for start, values in sum_values(connection, sources, column, interval)
            for value, each in values.items()
        )
    else:
        nodes = node_faults(sources, (column,), interval)
        rows = connection.execute(_by_value(nodes, [nodes.c.start, nodes.c[column]]))
        ordered = sorted((start, value, *counts) for start, value, *counts in rows)
    return [FaultRow(instant(start), value, faults, n) for start, value, faults, n, _ in ordered]


def sum_faults(
    connection: Connection, selection: HistorySelection, by: FaultProperty
) -> list[FaultSum]:
    """Return the values with their faults in the whole period, the most frequent first."""
    sources, column = find_sources(connection, selection), column_of(by)
    if has_sets(sources):
        sums = [
            FaultSum(value, each.faults, len(each.nodes), each.early, each.faults - each.early)
            for _, values in sum_values(connection, sources, column, None)
            for value, each in values.items()
        ]
    else:
        nodes = node_faults(sources, (column,))
        rows = connection.execute(_by_value(nodes, [nodes.c[column]]))
        sums = [
            FaultSum(value, faults, n, early, faults - early) for value, faults, n, early in rows
        ]
    return sorted(sums, key=lambda row: (-row.faults, row.value))


def count_values(
    connection: Connection,
    selection: HistorySelection,
    by: FaultProperty,
    interval: Interval,
    values: Sequence[str],
) -> list[ValueCount]:
    """Return the faults of these values over time, and of all others together.

    It counts no nodes, so it is fast over a year.
    """
    sources = find_sources(connection, selection)
    totals = _count_values(connection, sources, FaultProperty.CLASS, interval, None)
    others = Counter({start: count for (start, _), count in totals.items()})
    named = _count_values(connection, sources, by, interval, values) if values else {}
    for (start, _), count in named.items():
        others[start] -= count
    rows = [ValueCount(instant(start), value, count) for (start, value), count in named.items()]
    return rows + [ValueCount(instant(start), None, count) for start, count in (+others).items()]


def column_of(by: FaultProperty) -> str:
    return COLUMNS.get(by, by.value)


def _by_value(nodes: Subquery, keys: Sequence[ColumnElement[Any]]) -> Select[*tuple[Any, ...]]:
    """Sum the faults of nodes by keys, and count the nodes."""
    identity = [nodes.c[name] for name in IDENTITY]
    per_node = (
        select(
            *(key.label(f"key_{n}") for n, key in enumerate(keys)),
            func.sum(nodes.c.faults).label("faults"),
            func.sum(nodes.c.early).label("early"),
        )
        .group_by(*keys, *identity)
        .subquery("per_node")
    )
    columns = [per_node.c[f"key_{n}"] for n in range(len(keys))]
    sums = func.sum(per_node.c.faults), func.count(), func.sum(per_node.c.early)
    return select(*columns, *(cast(each, BigInteger) for each in sums)).group_by(*columns)


def _count_values(
    connection: Connection,
    sources: PeriodSources,
    by: FaultProperty,
    interval: Interval,
    values: Sequence[str] | None,
) -> Counter[tuple[int, str]]:
    """Return the faults by start and value. values: None sums over all, as the value ""."""
    counts: Counter[tuple[int, str]] = Counter()
    queries = [_values_of_events(sources, by, interval, values)]
    if sources.selection.cluster and has_sets(sources):
        counts += _values_of_sets(connection, sources, by, interval, values)
        rest = without_sets(connection, sources, column_of(by))
        queries.append(_values_of_nodes(rest, by, interval, values))
    elif sources.rollups and sources.selection.cluster:
        queries.append(_values_of_nodes(sources, by, interval, values))
    elif sources.rollups:
        queries.append(_values_of_rollups(sources, by, interval, values))
    for query in queries:
        for start, value, count in connection.execute(query):
            counts[start, value] += int(count)
    return counts


def _values_of_events(
    sources: PeriodSources, by: FaultProperty, interval: Interval, values: Sequence[str] | None
) -> Select[*tuple[Any, ...]]:
    start = interval.start(faults.c.time).label("start")
    value, condition = _named(faults.c[column_of(by)], values)
    keys = [start, value]
    query = select(*keys, func.count()).where(sources.covers_events(faults), condition)
    return query.group_by(*keys)


def _values_of_rollups(
    sources: PeriodSources, by: FaultProperty, interval: Interval, values: Sequence[str] | None
) -> Select[*tuple[Any, ...]]:
    start = interval.start(value_days.c.day).label("start")
    value, condition = _named(value_groups.c.value, values)
    return (
        select(start, value, func.sum(value_days.c.faults))
        .join_from(value_groups, value_days, value_days.c.group_id == value_groups.c.id)
        .where(
            value_groups.c.property == column_of(by),
            condition,
            *sources.selection.list_conditions(value_groups, ("rule", "fault_class")),
            sources.covers_days(value_days),
        )
        .group_by(start, value)
    )


def _values_of_sets(
    connection: Connection,
    sources: PeriodSources,
    by: FaultProperty,
    interval: Interval,
    values: Sequence[str] | None,
) -> Counter[tuple[int, str]]:
    counts: Counter[tuple[int, str]] = Counter()
    for day, sets in read_sets(connection, sources, column_of(by)):
        start = interval.start_of(day)
        for value, (count, _) in sets.items():
            if values is None:
                counts[start, ""] += count
            elif value in values:
                counts[start, value] += count
    return counts


def _values_of_nodes(
    sources: PeriodSources, by: FaultProperty, interval: Interval, values: Sequence[str] | None
) -> Select[*tuple[Any, ...]]:
    """Count within one cluster, which roll-ups of values do not tell apart."""
    column = column_of(by)
    nodes = node_faults(replace(sources, events=()), (column,), interval)
    value, condition = _named(nodes.c[column], values)
    query = select(nodes.c.start, value, func.sum(nodes.c.faults)).where(condition)
    return query.group_by(nodes.c.start, value)


def _named(
    column: ColumnElement[str], values: Sequence[str] | None
) -> tuple[ColumnElement[str], ColumnElement[bool]]:
    """Return the value by which rows are counted, and which rows count."""
    if values is None:
        return literal("").label("value"), true()
    return column.label("value"), column.in_(values)
