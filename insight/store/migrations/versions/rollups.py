"""Create the tables of roll-ups, and have the days of all stored events rolled up."""

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, LargeBinary, String

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

INDEXES = {
    "faults_node": ("faults", ["node", "time"]),
    "repairs_node": ("repairs", ["node", "time"]),
    "repairs_job": ("repairs", ["cluster", "job"]),
    "rollup_days_state": ("rollup_days", ["state", "day"]),
    "fault_groups_node": ("fault_groups", ["node_uid"]),
    "value_groups_property": ("value_groups", ["property"]),
    "failure_groups_node": ("failure_groups", ["node_uid"]),
    **{f"{name}_days_day": (f"{name}_days", ["day"]) for name in ("fault", "value", "failure")},
    "repair_days_day": ("repair_days", ["day"]),
}
GROUPS: dict[str, list[Column[str]]] = {
    "fault_groups": [
        Column(name, String, nullable=False)
        for name in (
            *("cluster", "node", "node_uid", "zone", "rack", "machine_type", "image", "kernel"),
            *("rule", "fault_class", "severity"),
        )
    ],
    "value_groups": [
        Column(name, String, nullable=False)
        for name in ("property", "value", "rule", "fault_class")
    ],
    "failure_groups": [
        Column(name, String, nullable=False)
        for name in ("cluster", "node", "node_uid", "rule", "fault_class")
    ],
    "repair_groups": [
        Column("cluster", String),
        *(Column(name, String, nullable=False) for name in ("rule", "fault_class", "rung_name")),
    ],
}
PENDING = """
    INSERT INTO rollup_days (day, state)
    SELECT DISTINCT time / 86400000 * 86400000, 'pending' FROM
    (SELECT time FROM faults UNION ALL SELECT time FROM repairs) AS times
"""


def upgrade() -> None:
    op.create_table(
        "rollup_days",
        Column("day", BigInteger, primary_key=True, autoincrement=False),
        Column("state", String, nullable=False),
    )
    for name, columns in GROUPS.items():
        identity = Column("id", BigInteger, primary_key=True, autoincrement=False)
        op.create_table(name, identity, *columns)
    _create_facts()
    for name, (table, keys) in INDEXES.items():
        op.create_index(name, table, keys)
    op.execute(PENDING)


def _create_facts() -> None:
    _create_fact("fault_days", ["faults", "relapses"], *_instants("first", "last"))
    _create_fact("value_days", ["faults"])
    _create_fact("failure_days", ["failed"])
    op.create_table(
        "repair_days",
        *_key(),
        *_counts("jobs", "succeeded", "failed", "relapsed", "escalated"),
        Column("times", LargeBinary, nullable=False),
    )


def _create_fact(name: str, counts: list[str], *others: Column[int]) -> None:
    op.create_table(name, *_key(), *_counts(*counts), *others, sqlite_with_rowid=False)


def downgrade() -> None:
    for name in ("faults_node", "repairs_node", "repairs_job"):
        op.drop_index(name, INDEXES[name][0])
    facts = ("fault_days", "value_days", "failure_days", "repair_days")
    for table in ("rollup_days", *GROUPS, *facts):
        op.drop_table(table)


def _key() -> list[Column[int]]:
    return [
        Column(name, BigInteger, primary_key=True, autoincrement=False)
        for name in ("group_id", "day")
    ]


def _counts(*columns: str) -> list[Column[int]]:
    return [Column(name, Integer, nullable=False) for name in columns]


def _instants(*columns: str) -> list[Column[int]]:
    return [Column(name, BigInteger, nullable=False) for name in columns]
