"""Loads batches of events and deletes old rows. Blocking: the server calls it in its own thread.

Loading is idempotent, so a batch whose answer was lost may come again. A batch is one transaction:
after an error none of it is stored.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Table, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from insight.store.database import POSTGRESQL, database_errors
from insight.store.rows import ReceivedEvent, rows_of
from insight.store.schema import TABLES, milliseconds

DELETED_AT_ONCE = 5000


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Counts of one batch. stored: new events; known: stored before; expired: beyond retention;
    ignored: of a type that this version does not know.
    """

    stored: int = 0
    known: int = 0
    expired: int = 0
    ignored: int = 0


class EventStore:
    """retention: age at which rows are deleted, and at which late events are no longer stored"""

    def __init__(self, engine: Engine, retention: timedelta) -> None:
        self._engine, self._retention = engine, retention

    def load(self, batch: Sequence[ReceivedEvent], now: datetime) -> LoadResult:
        """Store a batch. Raises MalformedEvent and StoreUnavailable, and stores nothing then."""
        start = now - self._retention
        rows: dict[Table, list[dict[str, Any]]] = defaultdict(list)
        expired = ignored = 0
        for event in batch:
            event_rows = rows_of(event)
            if event_rows and event.time < start:
                expired += 1
                continue
            ignored += not event_rows
            for table, row in event_rows:
                rows[table].append(row)
        stored = self._insert(rows)
        known = len(batch) - stored - expired - ignored
        return LoadResult(stored, known, expired, ignored)

    def delete_expired(self, now: datetime) -> int:
        """Delete rows beyond the retention, in small transactions. Return how many events."""
        before = milliseconds(now - self._retention)
        counts = [self._delete(table, before) for table in TABLES]
        return counts[0]

    def check(self) -> None:
        """Raise StoreUnavailable unless the database answers."""
        with database_errors(), self._engine.connect() as connection:
            connection.execute(select(1))

    def _insert(self, rows: dict[Table, list[dict[str, Any]]]) -> int:
        """Insert the rows that are new. Return how many events were."""
        if not rows:
            return 0
        with database_errors(), self._engine.begin() as connection:
            counts = [self._insert_new(connection, table, rows[table]) for table in TABLES]
        return counts[0]

    def _insert_new(
        self, connection: Connection, table: Table, rows: Iterable[dict[str, Any]]
    ) -> int:
        """Insert in the order of IDs, so that two writers of the same events do not deadlock."""
        insert = postgresql.insert if self._engine.name == POSTGRESQL else sqlite.insert
        ordered = sorted(rows, key=lambda row: str(row["id"]))
        if not ordered:
            return 0
        statement = insert(table).on_conflict_do_nothing()
        options = {"preserve_rowcount": True}
        return connection.execute(statement, ordered, execution_options=options).rowcount

    def _delete(self, table: Table, before: int) -> int:
        total = 0
        oldest = select(table.c.id).where(table.c.time < before).limit(DELETED_AT_ONCE)
        while True:
            with database_errors(), self._engine.begin() as connection:
                deleted = connection.execute(delete(table).where(table.c.id.in_(oldest))).rowcount
            total += deleted
            if deleted < DELETED_AT_ONCE:
                return total
