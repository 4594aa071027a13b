"""Stores on a real PostgreSQL."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from support.insight_history import disposing, opened_store
from support.postgresql import PostgresqlServer, postgresql_server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    with postgresql_server() as server:
        yield server


@pytest.fixture
def engine(postgresql: PostgresqlServer) -> Iterator[Engine]:
    with disposing(opened_store(postgresql.url)) as engine:
        yield engine
