"""The tables of roll-ups: sums of whole days, from which long periods are read.

A day begins at midnight in UTC. Facts are rows of numbers, by group and day; a group has the texts.
The ID of a group is derived from its texts, so two writers give it the same one.
"""

from enum import StrEnum

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, String, Table

from insight.store.schema import metadata


class DayState(StrEnum):
    """State of the roll-up of a day.

    PENDING: events arrived since the roll-up; the day is read from events
    CURRENT: the roll-up has all events of the day
    ARCHIVED: events of the day may be deleted; the roll-up is final
    """

    PENDING = "pending"
    CURRENT = "current"
    ARCHIVED = "archived"


def _names(*columns: str) -> list[Column[str]]:
    return [Column(name, String, nullable=False) for name in columns]


def _counts(*columns: str) -> list[Column[int]]:
    return [Column(name, Integer, nullable=False) for name in columns]


def _group() -> Column[int]:
    return Column("id", BigInteger, primary_key=True, autoincrement=False)


def _fact_key() -> list[Column[int]]:
    """Return the columns that identify a fact. Rows of a group are stored together."""
    return [
        Column(name, BigInteger, primary_key=True, autoincrement=False)
        for name in ("group_id", "day")
    ]


rollup_days = Table(
    "rollup_days",
    metadata,
    Column("day", BigInteger, primary_key=True, autoincrement=False),
    *_names("state"),
    Index("rollup_days_state", "state", "day"),
)
"""Every day of which an event was stored."""

fault_groups = Table(
    "fault_groups",
    metadata,
    _group(),
    *_names("cluster", "node", "node_uid", "zone", "rack", "machine_type", "image", "kernel"),
    *_names("rule", "fault_class", "severity"),
    Index("fault_groups_node", "node_uid"),
)
fault_days = Table(
    "fault_days",
    metadata,
    *_fact_key(),
    *_counts("faults", "relapses"),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Index("fault_days_day", "day"),
    sqlite_with_rowid=False,
)
"""Faults of one node with these properties. first, last: instants of faults."""

value_groups = Table(
    "value_groups",
    metadata,
    _group(),
    *_names("property", "value", "rule", "fault_class"),
    Index("value_groups_property", "property"),
)
value_days = Table(
    "value_days",
    metadata,
    *_fact_key(),
    *_counts("faults"),
    Index("value_days_day", "day"),
    sqlite_with_rowid=False,
)
"""Faults with one value of a property, on all nodes."""

failure_groups = Table(
    "failure_groups",
    metadata,
    _group(),
    *_names("cluster", "node", "node_uid", "rule", "fault_class"),
    Index("failure_groups_node", "node_uid"),
)
failure_days = Table(
    "failure_days",
    metadata,
    *_fact_key(),
    *_counts("failed"),
    Index("failure_days_day", "day"),
    sqlite_with_rowid=False,
)
"""Jobs in phase Failed on one node."""

repair_groups = Table(
    "repair_groups",
    metadata,
    _group(),
    Column("cluster", String),
    *_names("rule", "fault_class", "rung_name"),
)
"""Each group of a cluster is also in the group of all clusters, which has `cluster` NULL."""
repair_days = Table(
    "repair_days",
    metadata,
    *_fact_key(),
    *_counts("jobs", "succeeded", "failed", "relapsed", "escalated"),
    Column("times", LargeBinary, nullable=False),
    Index("repair_days_day", "day"),
)
"""Closed jobs without those in phase Shadowed. times: see `insight.store.histogram`."""

FACTS = {
    fault_days: fault_groups,
    value_days: value_groups,
    failure_days: failure_groups,
    repair_days: repair_groups,
}
"""Tables of facts with those of their groups."""
