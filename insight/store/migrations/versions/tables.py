"""Create events, faults and repairs.

A migration states its tables itself: insight.store.schema describes those of the newest version.
"""

from alembic import op
from sqlalchemy import BigInteger, Column, Float, Integer, String, Text

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "events",
        Column("id", String, primary_key=True),
        *_instants("time", nullable=False),
        *_names("cluster", "type", "node", "job_uid"),
        Column("data", Text, nullable=False),
    )
    op.create_index("events_time", "events", ["time"])
    op.create_index("events_job", "events", ["job_uid"])
    op.create_table(
        "faults",
        Column("id", String, primary_key=True),
        *_instants("time", nullable=False),
        *_names("cluster", "job", "node", "node_uid", "zone", "machine_type", "image", "kernel"),
        *_names("rule", "fault_class", "severity", "mode", "previous"),
    )
    op.create_index("faults_time", "faults", ["time"])
    op.create_index("faults_previous", "faults", ["cluster", "previous"])
    op.create_table(
        "repairs",
        Column("id", String, primary_key=True),
        *_instants("time", nullable=False),
        *_names("cluster", "job", "node", "node_uid", "rule", "fault_class", "phase", "reason"),
        Column("start_rung", Integer, nullable=False),
        Column("rung", Integer, nullable=False),
        *_names("rung_name"),
        *_instants("first_true", nullable=False),
        *_instants("job_created", "permit_granted", "drained", "acted", "verified"),
        Column("hold_seconds", Float, nullable=False),
        Column("pods_unavailable_seconds", Float, nullable=False),
    )
    op.create_index("repairs_time", "repairs", ["time"])


def downgrade() -> None:
    for table in ("events", "faults", "repairs"):
        op.drop_table(table)


def _names(*columns: str) -> list[Column[str]]:
    return [Column(name, String, nullable=False) for name in columns]


def _instants(*columns: str, nullable: bool = True) -> list[Column[int]]:
    return [Column(name, BigInteger, nullable=nullable) for name in columns]
