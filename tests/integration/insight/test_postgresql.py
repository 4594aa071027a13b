"""The store in a real PostgreSQL behaves as that in SQLite, and survives the server's end."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import HealthCheck, given, settings
from sqlalchemy import Engine
from support.daemons import free_port
from support.insight_history import disposing, opened_store, received
from support.insight_loads import (
    HISTORY,
    NOW,
    Deliveries,
    check_any_delivery_stores_each_event_once,
    check_content,
    check_long_texts,
    check_retention,
    deliveries,
    emptied,
)
from support.postgresql import postgresql_server

from insight.store.database import StoreUnavailable, database_url, migrate, open_database
from insight.store.event_store import EventStore
from insight.store.schema import metadata
from kubenode.runtime.process import CannotStart

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
YEAR = timedelta(days=365)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(batches=deliveries())
def test_any_order_and_repetition_stores_each_event_once(
    engine: Engine, batches: Deliveries
) -> None:
    check_any_delivery_stores_each_event_once(engine, batches)


def test_texts_too_long_for_an_index_are_cut_and_counted(engine: Engine) -> None:
    check_long_texts(engine)


def test_expired_events_are_deleted_and_stay_away(engine: Engine) -> None:
    check_retention(engine)


def test_migrations_make_the_tables_that_the_code_expects(engine: Engine) -> None:
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_writers_of_the_same_events_at_once_store_each_once(engine: Engine) -> None:
    emptied(engine)
    batches = [received(HISTORY), received(reversed(HISTORY))] * 10
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda b: EventStore(engine, YEAR).load(b, NOW), batches))
    assert sum(result.stored for result in results) == len(HISTORY)
    check_content(engine, HISTORY)


def test_killed_server_loses_no_answered_batch_and_serves_again() -> None:
    half = len(HISTORY) // 2
    with postgresql_server() as server, disposing(opened_store(server.url)) as engine:
        store = EventStore(engine, YEAR)
        store.load(received(HISTORY[:half]), NOW)
        server.kill()
        with pytest.raises(StoreUnavailable):
            store.load(received(HISTORY[half:]), NOW)
        server.start()
        store.load(received(HISTORY[half:]), NOW)
        check_content(engine, HISTORY)


def test_password_is_not_in_the_error_of_an_absent_server() -> None:
    engine = open_database(database_url(f"postgresql://u:geheim@127.0.0.1:{free_port()}/d"))
    with pytest.raises(CannotStart, match="--database-url") as caught:
        migrate(engine)
    assert "geheim" not in str(caught.value)
