"""Writes many events into an empty store, faster than the loader does.

The rows are those that the loader makes. They are copied without a check for events that are stored
already, in transactions of SEEDED_AT_ONCE events.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Engine, Table
from support.insight_history import received

from insight.store.database import POSTGRESQL, write_transaction
from insight.store.rollup_store import mark_pending
from insight.store.rows import rows_of
from insight.store.schema import TABLES, day_of, milliseconds
from kubenode.runtime.stream.model import StreamEvent

SEEDED_AT_ONCE = 20_000
Rows = Sequence[dict[str, Any]]


def seed(engine: Engine, events: Iterable[StreamEvent]) -> int:
    """Store the events, and mark their days as pending. Return how many events there were."""
    count, source = 0, iter(events)
    while batch := list(islice(source, SEEDED_AT_ONCE)):
        count += len(batch)
        rows: dict[Table, list[dict[str, Any]]] = defaultdict(list)
        for event in received(batch):
            for table, row in rows_of(event):
                rows[table].append(row)
        with write_transaction(engine) as connection:
            for table in TABLES:
                _copy(connection, table, rows[table])
            mark_pending(connection, {day_of(milliseconds(event.time)) for event in batch})
    return count


def _copy(connection: Connection, table: Table, rows: Rows) -> None:
    if not rows:
        return
    names = list(rows[0])
    values = [tuple(row[name] for name in names) for row in rows]
    columns = ", ".join(names)
    if connection.engine.name == POSTGRESQL:
        cursor = connection.connection.cursor()
        with cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN") as copy:
            for each in values:
                copy.write_row(each)
    else:
        places = ", ".join("?" for _ in names)
        connection.exec_driver_sql(
            f"INSERT INTO {table.name} ({columns}) VALUES ({places})", values
        )
