"""Rolls up days, and records which days have a roll-up. Blocking.

A load marks the days that it touches as pending, in its own transaction. A roll-up replaces all
rows of its day, and runs alone among writers. So a roll-up either has all events of its day, or
its day is pending and is read from events.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Table, and_, delete, func, select, update

from insight.store.database import database_errors, insert_into, write_transaction
from insight.store.day_sums import sum_day
from insight.store.node_sets import sum_node_sets
from insight.store.rollup_schema import FACTS, DayState, rollup_days
from insight.store.schema import DAY, day_of, faults, milliseconds, repairs
from insight.store.stages import repair_query
from insight.store.week_schema import value_nodes
from insight.store.week_store import discard_weeks


class RollupStore:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def list_pending(self, now: datetime) -> list[int]:
        """Return the pending days that are over, the latest first. Raises StoreUnavailable."""
        with database_errors(), self._engine.connect() as connection:
            query = select(rollup_days.c.day).where(
                rollup_days.c.state == DayState.PENDING,
                rollup_days.c.day < day_of(milliseconds(now)),
            )
            return list(connection.execute(query.order_by(rollup_days.c.day.desc())).scalars())

    def roll_up(self, day: int) -> None:
        """Replace the roll-up of a day, unless it is final. Raises StoreUnavailable."""
        with write_transaction(self._engine) as connection:
            state = select(rollup_days.c.state).where(rollup_days.c.day == day)
            if connection.execute(state).scalar_one_or_none() == DayState.ARCHIVED:
                return
            opened, closed = _read_day(connection, day)
            rows = sum_day(day, opened, closed)
            for facts, groups in FACTS.items():
                connection.execute(delete(facts).where(facts.c.day == day))
                _insert_groups(connection, groups, rows[groups])
                if rows[facts]:
                    connection.execute(facts.insert(), rows[facts])
            connection.execute(delete(value_nodes).where(value_nodes.c.day == day))
            if sets := sum_node_sets(day, opened):
                connection.execute(value_nodes.insert(), sets)
            discard_weeks(connection, day)
            _set_state(connection, and_(rollup_days.c.day == day), DayState.CURRENT)

    def archive(self, before: int) -> None:
        """Make the roll-ups of all days before this one final, after those that are pending."""
        with database_errors(), self._engine.connect() as connection:
            query = select(rollup_days.c.day).where(
                rollup_days.c.day < before, rollup_days.c.state == DayState.PENDING
            )
            pending = list(connection.execute(query).scalars())
        for day in pending:
            self.roll_up(day)
        with write_transaction(self._engine) as connection:
            rolled = and_(rollup_days.c.day < before, rollup_days.c.state == DayState.CURRENT)
            _set_state(connection, rolled, DayState.ARCHIVED)


def first_open_day(connection: Connection) -> int:
    """Return the first day after all archived ones, in milliseconds; 0 without any."""
    query = select(func.max(rollup_days.c.day)).where(rollup_days.c.state == DayState.ARCHIVED)
    last: int | None = connection.execute(query).scalar_one()
    return 0 if last is None else last + DAY


def mark_pending(connection: Connection, days: Iterable[int]) -> None:
    """Have days rolled up again, except final ones."""
    rows = [{"day": day, "state": DayState.PENDING.value} for day in sorted(set(days))]
    if not rows:
        return
    statement = insert_into(connection, rollup_days).on_conflict_do_update(
        index_elements=["day"],
        set_={"state": DayState.PENDING.value},
        where=rollup_days.c.state == DayState.CURRENT,
    )
    connection.execute(statement, rows)


def _read_day(connection: Connection, day: int) -> tuple[Sequence[Any], Sequence[Any]]:
    opened = select(faults).where(faults.c.time >= day, faults.c.time < day + DAY)
    closed = repair_query(and_(repairs.c.time >= day, repairs.c.time < day + DAY))
    return connection.execute(opened).all(), connection.execute(closed).all()


def _insert_groups(connection: Connection, groups: Table, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(insert_into(connection, groups).on_conflict_do_nothing(), rows)


def _set_state(connection: Connection, condition: Any, state: DayState) -> None:
    connection.execute(update(rollup_days).where(condition).values(state=state.value))
