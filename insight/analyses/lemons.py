"""Lemon nodes: those that fail again and again, with the evidence.

A node is identified by cluster, name and UID: a new machine under an old name starts anew.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, case, func, select

from insight.analyses.selection import HistorySelection
from insight.store.schema import faults, instant, repairs

MOST_NODES = 200
IDENTITY = ("cluster", "node", "node_uid")
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


def list_lemons(connection: Connection, selection: HistorySelection, least: int) -> list[LemonRow]:
    """Return the nodes with at least `least` faults, the worst first, at most MOST_NODES."""
    nodes = connection.execute(node_query(selection, least)).all()
    if not nodes:
        return []
    uids = [row.node_uid for row in nodes]
    classes: dict[Identity, dict[str, int]] = defaultdict(dict)
    for *identity, name, count in connection.execute(class_query(selection, uids)):
        classes[_identity(identity)][name] = count
    failures = {
        _identity(identity): count
        for *identity, count in connection.execute(failure_query(selection, uids))
    }
    return [_lemon(row, classes[_identity(row)], failures) for row in nodes]


def node_query(selection: HistorySelection, least: int) -> Select[*tuple[Any, ...]]:
    count = func.count()
    relapses = func.sum(case((faults.c.previous != "", 1), else_=0))
    identity = [faults.c[name] for name in IDENTITY]
    return (
        select(*identity, count, relapses, func.min(faults.c.time), func.max(faults.c.time))
        .where(selection.covers(faults))
        .group_by(*identity)
        .having(count >= least)
        .order_by(count.desc(), relapses.desc(), *identity)
        .limit(MOST_NODES)
    )


def count_by_faults(connection: Connection, selection: HistorySelection) -> dict[int, int]:
    """Return how many nodes had each number of faults, at least one."""
    per_node = (
        select(func.count().label("faults"))
        .where(selection.covers(faults))
        .group_by(*(faults.c[name] for name in IDENTITY))
        .subquery()
    )
    query = select(per_node.c.faults, func.count()).group_by(per_node.c.faults)
    return {count: nodes for count, nodes in connection.execute(query)}


def class_query(selection: HistorySelection, uids: Sequence[str]) -> Select[*tuple[Any, ...]]:
    columns = [faults.c[name] for name in (*IDENTITY, "fault_class")]
    return (
        select(*columns, func.count())
        .where(selection.covers(faults), faults.c.node_uid.in_(uids))
        .group_by(*columns)
        .order_by(*columns)
    )


def failure_query(selection: HistorySelection, uids: Sequence[str]) -> Select[*tuple[Any, ...]]:
    columns = [repairs.c[name] for name in IDENTITY]
    failed = repairs.c.phase == "Failed"
    return (
        select(*columns, func.count())
        .where(selection.covers(repairs), failed, repairs.c.node_uid.in_(uids))
        .group_by(*columns)
    )


def _identity(row: Sequence[Any] | Row[*tuple[Any, ...]]) -> Identity:
    return row[0], row[1], row[2]


def _lemon(
    row: Row[*tuple[Any, ...]], classes: dict[str, int], failures: dict[Identity, int]
) -> LemonRow:
    cluster, node, uid, count, relapses, first, last = row
    failed = failures.get((cluster, node, uid), 0)
    return LemonRow(
        cluster, node, uid, count, relapses, failed, classes, instant(first), instant(last)
    )
