"""Create the tables of roll-ups of weeks, and have all days rolled up again that still can be.

The indexes by rule and by class end with the time, so that the latest incidents of either are read
without a sort.
"""

from typing import TypeVar

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, LargeBinary, String
from sqlalchemy.types import TypeEngine

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None
T = TypeVar("T")


def upgrade() -> None:
    op.create_table("rollup_weeks", *_key("weeks", "begin"))
    op.create_table("node_groups", *_key("id"), *_columns(String, "cluster", "node", "node_uid"))
    op.create_table(
        "node_weeks",
        *_key("weeks", "begin", "group_id"),
        *_columns(Integer, "faults", "relapses"),
        *_columns(BigInteger, "first", "last"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "repair_weeks",
        *_key("group_id", "weeks", "begin"),
        *_columns(Integer, "jobs", "succeeded", "failed", "relapsed", "escalated"),
        *_columns(LargeBinary, "times"),
    )
    op.create_index("repair_weeks_begin", "repair_weeks", ["begin"])
    op.create_table(
        "value_nodes",
        Column("property", String, primary_key=True),
        *_key("day"),
        Column("cluster", String, primary_key=True),
        *_columns(LargeBinary, "nodes"),
    )
    op.drop_index("faults_rule", "faults")
    op.create_index("faults_rule", "faults", ["rule", "time"])
    op.create_index("faults_class", "faults", ["fault_class", "time"])
    op.execute("UPDATE rollup_days SET state = 'pending' WHERE state = 'current'")


def downgrade() -> None:
    for table in ("rollup_weeks", "node_groups", "node_weeks", "repair_weeks", "value_nodes"):
        op.drop_table(table)
    op.drop_index("faults_class", "faults")
    op.drop_index("faults_rule", "faults")
    op.create_index("faults_rule", "faults", ["rule", "fault_class", "time"])


def _key(*names: str) -> list[Column[int]]:
    return [Column(name, BigInteger, primary_key=True, autoincrement=False) for name in names]


def _columns(kind: type[TypeEngine[T]], *names: str) -> list[Column[T]]:
    return [Column(name, kind, nullable=False) for name in names]
