"""Rolls up weeks from the roll-ups of their days. Blocking.

A roll-up of weeks exists only if all its days are over and rolled up. A roll-up of one of these
days deletes it in the same transaction.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Engine, Table, and_, delete, func, or_, select

from insight.store.database import database_errors, insert_into, write_transaction
from insight.store.histogram import pack, unpack
from insight.store.node_sets import IDENTITY, node_id
from insight.store.rollup_schema import (
    DayState,
    fault_days,
    fault_groups,
    repair_days,
    rollup_days,
)
from insight.store.schema import day_of, milliseconds
from insight.store.week_schema import (
    LENGTHS,
    WEEK,
    node_groups,
    node_weeks,
    repair_weeks,
    rollup_weeks,
    week_of,
)

REPAIR_COUNTS = ("jobs", "succeeded", "failed", "relapsed", "escalated")


class WeekSpan(msgspec.Struct, frozen=True, order=True):
    """A number of weeks that begin at a Monday. begin: milliseconds"""

    weeks: int
    begin: int

    @property
    def end(self) -> int:
        return self.begin + self.weeks * WEEK

    def within(self, table: Table) -> ColumnElement[bool]:
        return and_(table.c.weeks == self.weeks, table.c.begin == self.begin)


class WeekStore:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def list_missing(self, now: datetime) -> list[WeekSpan]:
        """Return the roll-ups that can be made, the shortest first. Raises StoreUnavailable."""
        with database_errors(), self._engine.connect() as connection:
            states = {day: state for day, state in connection.execute(select(rollup_days))}
            return missing_weeks(states, read_weeks(connection), day_of(milliseconds(now)))

    def roll_up(self, span: WeekSpan) -> None:
        """Replace the roll-up of weeks, unless a day is pending. Raises StoreUnavailable."""
        with write_transaction(self._engine) as connection:
            pending = select(rollup_days.c.day).where(
                rollup_days.c.day >= span.begin,
                rollup_days.c.day < span.end,
                rollup_days.c.state == DayState.PENDING,
            )
            if connection.execute(pending.limit(1)).first() is not None:
                return
            for table in (node_weeks, repair_weeks, rollup_weeks):
                connection.execute(delete(table).where(span.within(table)))
            _sum_nodes(connection, span)
            _sum_repairs(connection, span)
            connection.execute(rollup_weeks.insert(), msgspec.structs.asdict(span))


def read_weeks(connection: Connection) -> set[WeekSpan]:
    """Return the weeks that have a current roll-up."""
    rows = connection.execute(select(rollup_weeks.c.weeks, rollup_weeks.c.begin))
    return {WeekSpan(weeks, begin) for weeks, begin in rows}


def missing_weeks(
    states: Mapping[int, str], stored: Collection[WeekSpan], today: int
) -> list[WeekSpan]:
    """Return the weeks whose days are over and rolled up, without those that are stored. Pure.

    states: of days by their begin
    """
    days: dict[WeekSpan, set[str]] = defaultdict(set)
    for day, state in states.items():
        for weeks in LENGTHS:
            days[WeekSpan(weeks, week_of(day, weeks))].add(state)
    return sorted(
        span
        for span, known in days.items()
        if DayState.PENDING not in known and span.end <= today and span not in stored
    )


def discard_weeks(connection: Connection, day: int) -> None:
    """Delete the weeks that contain a day from those that have a roll-up."""
    spans = (WeekSpan(weeks, week_of(day, weeks)) for weeks in LENGTHS)
    connection.execute(delete(rollup_weeks).where(or_(*(s.within(rollup_weeks) for s in spans))))


def _sum_nodes(connection: Connection, span: WeekSpan) -> None:
    identity = [fault_groups.c[name] for name in IDENTITY]
    query = (
        select(
            *identity,
            func.sum(fault_days.c.faults).label("faults"),
            func.sum(fault_days.c.relapses).label("relapses"),
            func.min(fault_days.c.first).label("first"),
            func.max(fault_days.c.last).label("last"),
        )
        .join_from(fault_days, fault_groups, fault_days.c.group_id == fault_groups.c.id)
        .where(fault_days.c.day >= span.begin, fault_days.c.day < span.end)
        .group_by(*identity)
    )
    groups, sums = [], []
    for row in connection.execute(query).mappings():
        names = {name: row[name] for name in IDENTITY}
        group = node_id(*names.values())
        groups.append({"id": group, **names})
        figures = {name: row[name] for name in ("faults", "relapses", "first", "last")}
        sums.append({**msgspec.structs.asdict(span), "group_id": group, **figures})
    if sums:
        connection.execute(insert_into(connection, node_groups).on_conflict_do_nothing(), groups)
        connection.execute(node_weeks.insert(), sums)


def _sum_repairs(connection: Connection, span: WeekSpan) -> None:
    sums: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    query = select(repair_days).where(repair_days.c.day >= span.begin, repair_days.c.day < span.end)
    for row in connection.execute(query).mappings():
        entry = sums[row["group_id"]]
        entry["times"] += unpack(row["times"])
        for name in REPAIR_COUNTS:
            entry[name] += row[name]
    rows: list[dict[str, Any]] = [
        {**msgspec.structs.asdict(span), "group_id": group, **entry, "times": pack(entry["times"])}
        for group, entry in sums.items()
    ]
    if rows:
        connection.execute(repair_weeks.insert(), rows)
