"""Lemon nodes: those that fail again and again, with the evidence.

A node is identified by cluster, name and UID: a new machine under an old name starts anew.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Connection, Select, Subquery, cast, func, select, union_all

from insight.analyses.node_faults import FILTERS, node_faults
from insight.analyses.selection import HistorySelection
from insight.analyses.sources import PeriodSources, find_sources
from insight.analyses.week_sources import find_weeks
from insight.store.node_sets import IDENTITY
from insight.store.rollup_schema import failure_days, failure_groups
from insight.store.schema import instant, repairs
from insight.store.week_schema import node_groups, node_weeks

MOST_NODES = 200
FIGURES = ("faults", "relapses", "first", "last")
Identity = tuple[str, str, str]


class LemonRow(msgspec.Struct, rename="camel", frozen=True):
    """failed: jobs that ended as Failed; relapses: jobs that followed a success that did not
    last.
    """

    cluster: str
    node: str
    uid: str
    faults: int
    relapses: int
    failed: int
    classes: dict[str, int]
    first: datetime
    last: datetime


class NodeSum(msgspec.Struct, frozen=True):
    """Faults of one node in a period. first, last: milliseconds"""

    identity: Identity
    faults: int
    relapses: int
    first: int
    last: int


def list_lemons(
    connection: Connection,
    selection: HistorySelection,
    least: int,
    nodes: Sequence[NodeSum] | None = None,
    most: int = MOST_NODES,
) -> list[LemonRow]:
    """Return the nodes with at least `least` faults, the worst first, at most `most`.

    nodes: those of the selection, if they are read already
    """
    every = sum_nodes(connection, selection) if nodes is None else nodes
    worst = sorted(
        (node for node in every if node.faults >= least),
        key=lambda node: (-node.faults, -node.relapses, node.identity),
    )[:most]
    if not worst:
        return []
    sources, uids = find_sources(connection, selection), [node.identity[2] for node in worst]
    classes = _count_classes(connection, sources, uids)
    failures = _count_failures(connection, sources, uids)
    return [_lemon(node, classes[node.identity], failures[node.identity]) for node in worst]


def sum_nodes(connection: Connection, selection: HistorySelection) -> list[NodeSum]:
    """Return all nodes that had a fault."""
    nodes = _node_sums(connection, selection)
    identity = [nodes.c[name] for name in IDENTITY]
    sums = (cast(func.sum(nodes.c[name]), BigInteger) for name in ("faults", "relapses"))
    query = select(*identity, *sums, func.min(nodes.c.first), func.max(nodes.c.last))
    return [
        NodeSum((cluster, node, uid), *figures)
        for cluster, node, uid, *figures in connection.execute(query.group_by(*identity))
    ]


def _node_sums(connection: Connection, selection: HistorySelection) -> Subquery:
    """Select nodes with their figures, several times each."""
    sources = find_sources(connection, selection)
    if selection.rule or selection.fault_class:
        return node_faults(sources)
    weeks = find_weeks(connection, sources.rollups)
    days = node_faults(replace(sources, rollups=tuple(weeks.days)))
    columns = [days.c[name] for name in (*IDENTITY, *FIGURES)]
    past = (
        select(
            *(node_groups.c[name] for name in IDENTITY), *(node_weeks.c[name] for name in FIGURES)
        )
        .join_from(node_weeks, node_groups, node_groups.c.id == node_weeks.c.group_id)
        .where(weeks.covers(node_weeks), *selection.list_conditions(node_groups, ("cluster",)))
    )
    return union_all(select(*columns), past).subquery("node_sums")


def count_by_faults(nodes: Iterable[NodeSum]) -> Counter[int]:
    """Return how many nodes had each number of faults, at least one."""
    return Counter(node.faults for node in nodes)


def _count_classes(
    connection: Connection, sources: PeriodSources, uids: Sequence[str]
) -> dict[Identity, Counter[str]]:
    nodes = node_faults(sources, ("fault_class",), uids=uids)
    names = (*IDENTITY, "fault_class", "faults")
    counts: dict[Identity, Counter[str]] = defaultdict(Counter)
    for *identity, name, count in connection.execute(select(*(nodes.c[each] for each in names))):
        counts[_identity(identity)][name] += int(count)
    return counts


def _count_failures(
    connection: Connection, sources: PeriodSources, uids: Sequence[str]
) -> Counter[Identity]:
    counts: Counter[Identity] = Counter()
    for query in (_failures_of_events(sources, uids), _failures_of_rollups(sources, uids)):
        for *identity, count in connection.execute(query):
            counts[_identity(identity)] += int(count)
    return counts


def _failures_of_events(sources: PeriodSources, uids: Sequence[str]) -> Select[*tuple[Any, ...]]:
    columns = [repairs.c[name] for name in IDENTITY]
    known = repairs.c.phase == "Failed", repairs.c.node_uid.in_(uids)
    query = select(*columns, func.count()).where(sources.covers_events(repairs), *known)
    return query.group_by(*columns)


def _failures_of_rollups(sources: PeriodSources, uids: Sequence[str]) -> Select[*tuple[Any, ...]]:
    columns = [failure_groups.c[name] for name in IDENTITY]
    return (
        select(*columns, func.sum(failure_days.c.failed))
        .join_from(failure_groups, failure_days, failure_days.c.group_id == failure_groups.c.id)
        .where(
            failure_groups.c.node_uid.in_(uids),
            *sources.selection.list_conditions(failure_groups, FILTERS),
            sources.covers_days(failure_days),
        )
        .group_by(*columns)
    )


def _identity(row: Sequence[Any]) -> Identity:
    return row[0], row[1], row[2]


def _lemon(node: NodeSum, classes: dict[str, int], failed: int) -> LemonRow:
    first, last = instant(node.first), instant(node.last)
    counts = node.faults, node.relapses, failed
    return LemonRow(*node.identity, *counts, dict(sorted(classes.items())), first, last)
