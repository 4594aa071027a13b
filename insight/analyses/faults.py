"""How many faults there were, over time, by a property of the fault or its node.

A fault is an opened job, in any mode. The properties of a node are those at the time of the fault.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, case, func, select

from insight.analyses.interval import Interval
from insight.analyses.selection import HistorySelection
from insight.store.schema import faults, instant, milliseconds


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


COLUMNS: dict[FaultProperty, ColumnElement[str]] = {
    FaultProperty.CLASS: faults.c.fault_class,
    FaultProperty.RULE: faults.c.rule,
    FaultProperty.SEVERITY: faults.c.severity,
    FaultProperty.CLUSTER: faults.c.cluster,
    FaultProperty.ZONE: faults.c.zone,
    FaultProperty.RACK: faults.c.rack,
    FaultProperty.MACHINE_TYPE: faults.c.machine_type,
    FaultProperty.IMAGE: faults.c.image,
    FaultProperty.KERNEL: faults.c.kernel,
}
NODE: ColumnElement[str] = faults.c.cluster + " " + faults.c.node + " " + faults.c.node_uid


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


def count_faults(
    connection: Connection, selection: HistorySelection, by: FaultProperty, interval: Interval
) -> list[FaultRow]:
    """Return the rows in the order of time and value. A time without faults has no row."""
    rows = connection.execute(fault_query(selection, by, interval))
    return [FaultRow(instant(start), value, count, nodes) for start, value, count, nodes in rows]


def sum_faults(
    connection: Connection, selection: HistorySelection, by: FaultProperty
) -> list[FaultSum]:
    """Return the values with their faults in the whole period, the most frequent first."""
    return [FaultSum(*row) for row in connection.execute(sum_query(selection, by))]


def count_faulty_nodes(connection: Connection, selection: HistorySelection) -> int:
    """Return how many nodes had a fault."""
    query = select(func.count(NODE.distinct())).where(selection.covers(faults))
    return connection.execute(query).scalar_one()


def fault_query(
    selection: HistorySelection, by: FaultProperty, interval: Interval
) -> Select[int, str, int, int]:
    start, value = interval.start(faults.c.time).label("start"), COLUMNS[by].label("value")
    return (
        select(start, value, func.count(), func.count(NODE.distinct()))
        .where(selection.covers(faults))
        .group_by(start, value)
        .order_by(start, value)
    )


def sum_query(selection: HistorySelection, by: FaultProperty) -> Select[*tuple[Any, ...]]:
    value, count = COLUMNS[by].label("value"), func.count()
    early = func.sum(case((faults.c.time < milliseconds(selection.middle), 1), else_=0))
    return (
        select(value, count, func.count(NODE.distinct()), early, count - early)
        .where(selection.covers(faults))
        .group_by(value)
        .order_by(count.desc(), value)
    )
