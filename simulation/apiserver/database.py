"""Objects on disk: each write is stored in SQLite before it is visible, so a restart loses none.

Only current versions are stored. History begins anew with each start, so older watches and pages
get 410 and list again, as after a restart of a real server.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from simulation.apiserver.errors import ApiError, Obj
from simulation.apiserver.store import Record

SCHEMA = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "CREATE TABLE IF NOT EXISTS objects (resource TEXT, namespace TEXT, name TEXT, rv INTEGER,"
    " raw BLOB, PRIMARY KEY (resource, namespace, name)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS deletions (id INTEGER PRIMARY KEY, rv INTEGER)",
)


class DatabaseError(Exception):
    """The file cannot be used as a database; the message names it and says why."""


class Database:
    """One file, for one server at a time. Raises DatabaseError if it cannot be opened or read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._connection = sqlite3.connect(path, isolation_level=None)
            for statement in SCHEMA:
                self._connection.execute(statement)
        except sqlite3.Error as error:
            raise DatabaseError(f"the objects cannot be kept in {path}: {error}") from error

    def close(self) -> None:
        self._connection.close()

    def newest(self) -> int:
        """Return the highest resourceVersion that was assigned, 0 for none."""
        [(rv,)] = self._connection.execute(
            "SELECT max((SELECT coalesce(max(rv), 0) FROM objects),"
            " (SELECT coalesce(max(rv), 0) FROM deletions))"
        )
        return int(rv)

    def objects(self) -> Iterator[tuple[str, Obj, int]]:
        """Yield (resource, object, resourceVersion), oldest first. Raises DatabaseError."""
        rows = self._connection.execute("SELECT resource, raw, rv FROM objects ORDER BY rv")
        try:
            for resource, raw, rv in rows:
                yield resource, msgspec.json.decode(raw), rv
        except (sqlite3.Error, msgspec.DecodeError) as error:
            raise DatabaseError(f"{self._path} holds what cannot be read: {error}") from error

    def write(self, resource: str, record: Record, gone: bool) -> None:
        """Store a version, or delete the object. Raises ApiError 500; then nothing has changed."""
        try:
            if gone:
                self._connection.execute(
                    "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?",
                    (resource, *record.key),
                )
                self._connection.execute(
                    "INSERT OR REPLACE INTO deletions VALUES (1, ?)", (record.rv,)
                )
            else:
                self._connection.execute(
                    "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)",
                    (resource, *record.key, record.rv, record.raw),
                )
        except sqlite3.Error as error:
            message = f"the write was not kept in {self._path}: {error}"
            raise ApiError(500, "InternalError", message) from error
