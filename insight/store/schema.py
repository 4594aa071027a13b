"""The tables of events. Rows are only inserted, by the ID of their event, and deleted by their age.

So the order and number of deliveries does not matter: no row depends on another one. Instants are
milliseconds since 1970 in UTC, which both databases compute with in the same way.
`insight.store.rollup_schema` has the tables of roll-ups.
"""

from datetime import UTC, datetime, timedelta

from sqlalchemy import BigInteger, Column, Float, Index, Integer, MetaData, String, Table, Text

metadata = MetaData()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
DAY = 86_400_000
"""Milliseconds."""
MONDAY = 3 * DAY
"""1970 began on a Thursday, three days after a Monday."""


def _name(column: str) -> Column[str]:
    return Column(column, String, nullable=False)


def _instant(column: str, *, nullable: bool = True) -> Column[int]:
    return Column(column, BigInteger, nullable=nullable)


events = Table(
    "events",
    metadata,
    Column("id", String, primary_key=True),
    _instant("time", nullable=False),
    _name("cluster"),
    _name("type"),
    _name("node"),
    _name("job_uid"),
    Column("data", Text, nullable=False),
    Index("events_time", "time"),
    Index("events_job", "job_uid"),
)
"""Every event as it came, `data` as JSON. `job_uid`: job or holder."""

faults = Table(
    "faults",
    metadata,
    Column("id", String, primary_key=True),
    _instant("time", nullable=False),
    _name("cluster"),
    _name("job"),
    _name("node"),
    _name("node_uid"),
    _name("zone"),
    _name("machine_type"),
    _name("image"),
    _name("kernel"),
    _name("rule"),
    _name("fault_class"),
    _name("severity"),
    _name("mode"),
    _name("previous"),
    Column("rack", String, nullable=False, server_default=""),
    Index("faults_time", "time"),
    Index("faults_job", "job"),
    Index("faults_rule", "rule", "time"),
    Index("faults_class", "fault_class", "time"),
    Index("faults_previous", "cluster", "previous"),
    Index("faults_node", "node", "time"),
)
"""A row for each opened job."""

repairs = Table(
    "repairs",
    metadata,
    Column("id", String, primary_key=True),
    _instant("time", nullable=False),
    _name("cluster"),
    _name("job"),
    _name("node"),
    _name("node_uid"),
    _name("rule"),
    _name("fault_class"),
    _name("phase"),
    _name("reason"),
    Column("start_rung", Integer, nullable=False),
    Column("rung", Integer, nullable=False),
    _name("rung_name"),
    _instant("first_true", nullable=False),
    _instant("job_created"),
    _instant("permit_granted"),
    _instant("drained"),
    _instant("acted"),
    _instant("verified"),
    Column("hold_seconds", Float, nullable=False),
    Column("pods_unavailable_seconds", Float, nullable=False),
    Index("repairs_time", "time"),
    Index("repairs_rule", "rule", "fault_class", "time"),
    Index("repairs_node", "node", "time"),
    Index("repairs_job", "cluster", "job"),
)
"""A row for each closed job. `time` is the time of its end."""

TABLES = (events, faults, repairs)


def milliseconds(at: datetime) -> int:
    return (at - _EPOCH) // _MILLISECOND


def instant(value: int) -> datetime:
    return _EPOCH + value * _MILLISECOND


def day_of(time: int) -> int:
    """Return the midnight in UTC that begins the day of an instant, in milliseconds."""
    return time // DAY * DAY
