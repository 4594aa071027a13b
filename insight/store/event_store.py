"""Loads batches of events and deletes old rows. Blocking: the server calls it in its own thread.

Loading is idempotent, so a batch whose answer was lost may come again. A batch is one transaction:
after an error none of it is stored. It also marks the days whose roll-ups it makes stale.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Table, delete, select

from insight.store.database import database_errors, insert_into, write_transaction
from insight.store.rollup_store import RollupStore, first_open_day, mark_pending
from insight.store.rows import ReceivedEvent, rows_of, shorten
from insight.store.schema import TABLES, day_of, events, faults, milliseconds, repairs
from insight.store.week_store import WeekStore

DELETED_AT_ONCE = 5000


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Counts of one batch. stored: new events; known: stored before; expired: beyond retention;
    ignored: of a type that this version does not know; shortened: with a text that was cut.
    """

    stored: int = 0
    known: int = 0
    expired: int = 0
    ignored: int = 0
    shortened: int = 0


class EventStore:
    """retention: age at which rows are deleted, and at which late events are no longer stored.

    Whole days are deleted, after they are rolled up.
    """

    def __init__(self, engine: Engine, retention: timedelta) -> None:
        self._engine, self._retention = engine, retention
        self.rollups = RollupStore(engine)
        self.weeks = WeekStore(engine)

    def load(self, batch: Sequence[ReceivedEvent], now: datetime) -> LoadResult:
        """Store a batch. Raises MalformedEvent and StoreUnavailable, and stores nothing then."""
        known_types = [each for each in ((event, rows_of(event)) for event in batch) if each[1]]
        ignored = len(batch) - len(known_types)
        if not known_types:
            return LoadResult(ignored=ignored)
        shortened = sum([any([shorten(row) for _, row in rows]) for _, rows in known_types])
        with write_transaction(self._engine) as connection:
            start = max(self._start(now), first_open_day(connection))
            rows: dict[Table, list[dict[str, Any]]] = defaultdict(list)
            for event, event_rows in known_types:
                if milliseconds(event.time) >= start:
                    for table, row in event_rows:
                        rows[table].append(row)
            stored = _insert(connection, rows)
        timely = len(rows[events])
        expired = len(known_types) - timely
        return LoadResult(stored, timely - stored, expired, ignored, shortened)

    def delete_expired(self, now: datetime) -> int:
        """Delete rows beyond the retention, in small transactions. Return how many events."""
        before = self._start(now)
        self.rollups.archive(before)
        counts = [self._delete(table, before) for table in TABLES]
        return counts[0]

    def check(self) -> None:
        """Raise StoreUnavailable unless the database answers."""
        with database_errors(), self._engine.connect() as connection:
            connection.execute(select(1))

    def _start(self, now: datetime) -> int:
        """Return the begin of the oldest day within the retention."""
        return day_of(milliseconds(now - self._retention))

    def _delete(self, table: Table, before: int) -> int:
        total = 0
        oldest = select(table.c.id).where(table.c.time < before).limit(DELETED_AT_ONCE)
        while True:
            with database_errors(), self._engine.begin() as connection:
                deleted = connection.execute(delete(table).where(table.c.id.in_(oldest))).rowcount
            total += deleted
            if deleted < DELETED_AT_ONCE:
                return total


def _insert(connection: Connection, rows: Mapping[Table, list[dict[str, Any]]]) -> int:
    """Insert the rows that are new. Return how many events were."""
    counts = {table: _insert_new(connection, table, rows[table]) for table in TABLES}
    if counts[faults] or counts[repairs]:
        days = [day_of(row["time"]) for table in (faults, repairs) for row in rows[table]]
        mark_pending(connection, [*days, *_days_of_previous(connection, rows[faults])])
    return counts[events]


def _insert_new(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> int:
    if not rows:
        return 0
    statement = insert_into(connection, table).on_conflict_do_nothing()
    options = {"preserve_rowcount": True}
    return connection.execute(statement, rows, execution_options=options).rowcount


def _days_of_previous(connection: Connection, rows: Iterable[dict[str, Any]]) -> set[int]:
    """Return the days on which the jobs closed that these faults are relapses of."""
    previous: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row["previous"]:
            previous[row["cluster"]].add(row["previous"])
    days = set()
    for cluster, jobs in previous.items():
        query = select(repairs.c.time).where(
            repairs.c.cluster == cluster, repairs.c.job.in_(sorted(jobs))
        )
        days |= {day_of(time) for time in connection.execute(query).scalars()}
    return days
