"""Opens the database, applies migrations, and turns its errors into ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, Table, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from kubenode.runtime.process import CannotStart

MIGRATIONS = Path(__file__).with_name("migrations")
SQLITE, POSTGRESQL = "sqlite", "postgresql"
BUSY_SECONDS = 30
"""Time for which SQLite waits for another writer."""
CONNECT_SECONDS = 5


class StoreUnavailable(Exception):
    """The database did not answer, or refused. A retry may succeed."""


def database_url(text: str) -> URL:
    """Read `sqlite:///FILE` or `postgresql://USER@HOST/NAME`. Raises ValueError."""
    try:
        url = make_url(text)
    except ArgumentError:
        raise ValueError("write sqlite:///FILE or postgresql://USER@HOST/NAME") from None
    match url.get_backend_name():
        case "sqlite" if url.database:
            return url.set(drivername="sqlite+pysqlite")
        case "postgresql":
            return url.set(drivername="postgresql+psycopg")
        case _:
            raise ValueError("write sqlite:///FILE or postgresql://USER@HOST/NAME")


def open_database(url: URL) -> Engine:
    if url.get_backend_name() == POSTGRESQL:
        return create_engine(
            url, pool_pre_ping=True, connect_args={"connect_timeout": CONNECT_SECONDS}
        )
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
    event.listen(engine, "connect", _tune)
    return engine


def migrate(engine: Engine, revision: str = "head") -> None:
    """Bring the schema up to date, or to an earlier revision. Raises CannotStart."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    where = engine.url.render_as_string(hide_password=True)
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
    except SQLAlchemyError as error:
        raise CannotStart(
            f"cannot prepare database {where}: {_cause(error)}; see --database-url"
        ) from error


@contextmanager
def database_errors() -> Iterator[None]:
    """Turn errors of the database within the block into StoreUnavailable."""
    try:
        yield
    except SQLAlchemyError as error:
        raise StoreUnavailable(_cause(error)) from error


@contextmanager
def write_transaction(engine: Engine) -> Iterator[Connection]:
    """Begin a transaction that runs alone among all writers; readers go on.

    Raises StoreUnavailable.
    """
    with database_errors(), engine.begin() as connection:
        if engine.name == POSTGRESQL:
            connection.exec_driver_sql("LOCK TABLE rollup_days IN SHARE ROW EXCLUSIVE MODE")
        else:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield connection


@contextmanager
def read_transaction(engine: Engine) -> Iterator[Connection]:
    """Begin a transaction in which all queries see the same state. Raises StoreUnavailable."""
    with database_errors(), engine.connect() as connection:
        if engine.name == POSTGRESQL:
            connection.execution_options(isolation_level="REPEATABLE READ")
        else:
            connection.exec_driver_sql("BEGIN")
        yield connection


def insert_into(connection: Connection, table: Table) -> "postgresql.Insert | sqlite.Insert":
    """Return an INSERT of the database's own kind, which can resolve conflicts."""
    if connection.engine.name == POSTGRESQL:
        return postgresql.insert(table)
    return sqlite.insert(table)


def _cause(error: SQLAlchemyError) -> str:
    """Return the first line of the database's own error, without statement and parameters."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    lines = str(cause).splitlines()
    return lines[0] if lines else type(error).__name__


def _tune(connection: Any, _: Any) -> None:
    """Let readers of SQLite go on while a batch is written, and survive a crash of the process."""
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL"):
        connection.execute(f"PRAGMA {pragma}")
