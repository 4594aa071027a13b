"""How many faults there were, over time, by a property of the fault or its node.

A fault is an opened job, in any mode. The properties of a node are those at the time of the fault.
"""

from datetime import datetime
from enum import StrEnum

import msgspec
from sqlalchemy import BigInteger, ColumnElement, Connection, Select, cast, func, select

from insight.analyses.period import Period
from insight.store.schema import faults, instant

DAY = 86_400_000
"""Milliseconds."""
MONDAY = 3 * DAY
"""1970 began on a Thursday, three days after a Monday."""


class FaultProperty(StrEnum):
    """What faults are counted by."""

    CLASS = "class"
    RULE = "rule"
    SEVERITY = "severity"
    CLUSTER = "cluster"
    ZONE = "zone"
    MACHINE_TYPE = "machine-type"
    IMAGE = "image"
    KERNEL = "kernel"


class Interval(StrEnum):
    """Length of one row's time. Weeks begin on Monday, in UTC."""

    DAY = "day"
    WEEK = "week"


COLUMNS: dict[FaultProperty, ColumnElement[str]] = {
    FaultProperty.CLASS: faults.c.fault_class,
    FaultProperty.RULE: faults.c.rule,
    FaultProperty.SEVERITY: faults.c.severity,
    FaultProperty.CLUSTER: faults.c.cluster,
    FaultProperty.ZONE: faults.c.zone,
    FaultProperty.MACHINE_TYPE: faults.c.machine_type,
    FaultProperty.IMAGE: faults.c.image,
    FaultProperty.KERNEL: faults.c.kernel,
}


class FaultRow(msgspec.Struct, rename="camel", frozen=True):
    start: datetime
    value: str
    faults: int
    nodes: int


def count_faults(
    connection: Connection, period: Period, by: FaultProperty, interval: Interval
) -> list[FaultRow]:
    """Return the rows in the order of time and value. A time without faults has no row."""
    rows = connection.execute(fault_query(period, by, interval))
    return [FaultRow(instant(start), value, count, nodes) for start, value, count, nodes in rows]


def fault_query(
    period: Period, by: FaultProperty, interval: Interval
) -> Select[int, str, int, int]:
    start, value = _start(interval).label("start"), COLUMNS[by].label("value")
    node = faults.c.cluster + " " + faults.c.node + " " + faults.c.node_uid
    return (
        select(start, value, func.count(), func.count(node.distinct()))
        .where(period.covers(faults))
        .group_by(start, value)
        .order_by(start, value)
    )


def _start(interval: Interval) -> ColumnElement[int]:
    """Return the begin of the interval of a fault."""
    length, offset = (DAY, 0) if interval is Interval.DAY else (7 * DAY, MONDAY)
    number = (faults.c.time + offset) // cast(length, BigInteger)
    return number * length - offset
