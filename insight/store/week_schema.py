"""The tables of roll-ups of weeks, and of the nodes that had each value on a day.

They repeat what the roll-ups of days have, in fewer rows, and are read where they exist. So a row
that is missing costs time and no figure.
"""

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, String, Table

from insight.store.schema import DAY, MONDAY, metadata

WEEK = 7 * DAY
LENGTHS = (8, 1)
"""Lengths of a roll-up in weeks, the longest first."""


def _key(*columns: Column[int]) -> list[Column[int]]:
    return [*columns, _number("weeks"), _number("begin")]


def _number(name: str, kind: type[BigInteger] | type[Integer] = BigInteger) -> Column[int]:
    return Column(name, kind, primary_key=True, autoincrement=False)


def _counts(*columns: str) -> list[Column[int]]:
    return [Column(name, Integer, nullable=False) for name in columns]


def _names(*columns: str) -> list[Column[str]]:
    return [Column(name, String, nullable=False) for name in columns]


rollup_weeks = Table("rollup_weeks", metadata, *_key())
"""The weeks that have a current roll-up. Each roll-up of a day deletes those of its weeks."""

node_groups = Table("node_groups", metadata, _number("id"), *_names("cluster", "node", "node_uid"))
node_weeks = Table(
    "node_weeks",
    metadata,
    *_key(),
    _number("group_id"),
    *_counts("faults", "relapses"),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""Faults of one node. first, last: instants of faults."""

repair_weeks = Table(
    "repair_weeks",
    metadata,
    *_key(_number("group_id")),
    *_counts("jobs", "succeeded", "failed", "relapsed", "escalated"),
    Column("times", LargeBinary, nullable=False),
    Index("repair_weeks_begin", "begin"),
)
"""Closed jobs of a group of `repair_groups`, as in `repair_days`."""

value_nodes = Table(
    "value_nodes",
    metadata,
    Column("property", String, primary_key=True),
    Column("day", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", String, primary_key=True),
    Column("nodes", LargeBinary, nullable=False),
)
"""Faults and nodes of one cluster by value of a property. nodes: see `insight.store.node_sets`."""


def week_of(time: int, weeks: int) -> int:
    """Return the Monday that begins the roll-up of an instant, both in milliseconds."""
    return (time + MONDAY) // (weeks * WEEK) * (weeks * WEEK) - MONDAY
