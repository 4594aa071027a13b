"""Add the rack of a fault, and indexes by which one incident and similar ones are read."""

from alembic import op
from sqlalchemy import Column, String

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

INDEXES = {
    "faults_job": ("faults", ["job"]),
    "faults_rule": ("faults", ["rule", "fault_class", "time"]),
    "repairs_rule": ("repairs", ["rule", "fault_class", "time"]),
}


def upgrade() -> None:
    op.add_column("faults", Column("rack", String, nullable=False, server_default=""))
    for name, (table, columns) in INDEXES.items():
        op.create_index(name, table, columns)


def downgrade() -> None:
    for name, (table, _) in INDEXES.items():
        op.drop_index(name, table)
    op.drop_column("faults", "rack")
