"""The store in SQLite: idempotent, atomic, and bounded in time."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import given, settings
from sqlalchemy import Engine, inspect, select
from support.insight_history import history, opened_store, received
from support.insight_loads import (
    HISTORY,
    NOW,
    Deliveries,
    check_any_delivery_stores_each_event_once,
    check_content,
    check_long_texts,
    check_retention,
    count_events,
    deliveries,
    emptied,
)

from insight.store.database import StoreUnavailable, database_url, migrate, open_database
from insight.store.event_store import EventStore, LoadResult
from insight.store.rollup_schema import rollup_days
from insight.store.rows import MalformedEvent, read_batch
from insight.store.schema import faults, metadata
from kubenode.runtime.process import CannotStart
from kubenode.runtime.stream.model import encode_batch

YEAR = timedelta(days=365)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = opened_store(f"sqlite:///{tmp_path_factory.mktemp('store')}/insight.db")
    yield made
    made.dispose()


@pytest.fixture
def store(engine: Engine) -> EventStore:
    emptied(engine)
    return EventStore(engine, YEAR)


@settings(max_examples=25, deadline=None)
@given(batches=deliveries())
@pytest.mark.exhaustive
def test_any_order_and_repetition_stores_each_event_once(
    engine: Engine, batches: Deliveries
) -> None:
    check_any_delivery_stores_each_event_once(engine, batches)


def test_texts_too_long_for_an_index_are_cut_and_counted(engine: Engine) -> None:
    check_long_texts(engine)


def test_expired_events_are_deleted_and_stay_away(engine: Engine) -> None:
    check_retention(engine)


def test_repetition_within_a_batch_is_stored_once(engine: Engine, store: EventStore) -> None:
    result = store.load(received([*HISTORY, *HISTORY]), NOW)
    assert result == LoadResult(stored=len(HISTORY), known=len(HISTORY))
    check_content(engine, HISTORY)


def test_event_of_a_later_version_is_ignored(store: EventStore) -> None:
    event = as_json()[0] | {"type": "io.kubenode.stream.v2.job.opened", "data": {"new": True}}
    assert store.load(batch_of(event), NOW) == LoadResult(ignored=1)


def as_json() -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(encode_batch(list(history(1, seed=1))))
    return events


def batch_of(*events: dict[str, Any]) -> Any:
    return read_batch(json.dumps(list(events)).encode())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": {}}, "missing required field `job`"),
        ({"id": "x" * 1025}, "id is longer than 1024 bytes"),
        ({"id": "\U0001f600" * 257}, "id is longer than 1024 bytes"),
        ({"subject": "x" * 2000}, "subject is longer"),
        ({"time": "2026-01-01T00:00:00"}, "time has no time zone"),
        ({"id": "a\x00b"}, "contains a null character"),
    ],
)
def test_malformed_event_names_its_fault_and_stores_nothing(
    engine: Engine, store: EventStore, change: dict[str, Any], message: str
) -> None:
    first, second, *_ = as_json()
    with pytest.raises(MalformedEvent, match=message):
        store.load(batch_of(first, second | change), NOW)
    assert count_events(engine) == 0


@pytest.mark.parametrize("number", [-1, 2**31])
def test_number_that_no_database_stores_is_malformed(store: EventStore, number: int) -> None:
    event = as_json()[0]
    event["data"]["startRung"] = number
    with pytest.raises(MalformedEvent, match="startRung"):
        store.load(batch_of(event), NOW)


@pytest.mark.parametrize("body", [b"{}", b"[1]", b"\xff", b"[" * 100_000, b'[{"id": 1}]'])
def test_body_that_is_no_batch_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedEvent, match="body"):
        read_batch(body)


def test_unknown_field_of_a_later_version_is_accepted(store: EventStore) -> None:
    event = as_json()[0]
    event["data"]["later"] = 1
    event["laterattribute"] = "x"
    assert store.load(batch_of(event), NOW).stored == 1


def test_migrations_make_the_tables_that_the_code_expects(engine: Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, metadata) == []


def test_migration_of_a_current_database_changes_nothing(engine: Engine, store: EventStore) -> None:
    store.load(received(HISTORY), NOW)
    migrate(engine)
    check_content(engine, HISTORY)
    assert "alembic_version" in inspect(engine).get_table_names()


def test_database_of_the_first_version_keeps_its_rows(tmp_path: Path) -> None:
    engine = open_database(database_url(f"sqlite:///{tmp_path}/old.db"))
    migrate(engine, "0001")
    columns = [column["name"] for column in inspect(engine).get_columns("faults")]
    assert "rack" not in columns
    with engine.begin() as connection:
        values = ", ".join(["'old'", "1", *["'x'"] * (len(columns) - 2)])
        connection.exec_driver_sql(f"INSERT INTO faults VALUES ({values})")
    migrate(engine)
    with engine.connect() as connection:
        rows = connection.execute(select(faults.c.id, faults.c.node, faults.c.rack)).all()
        days = connection.execute(select(rollup_days)).all()
    assert [tuple(row) for row in rows] == [("old", "x", "")]
    assert [tuple(day) for day in days] == [(0, "pending")], "the past is rolled up too"
    engine.dispose()


def test_unusable_database_names_its_setting(tmp_path: Path) -> None:
    missing = open_database(database_url(f"sqlite:///{tmp_path}/none/insight.db"))
    with pytest.raises(CannotStart, match="--database-url"):
        migrate(missing)
    with pytest.raises(StoreUnavailable, match="unable to open"):
        EventStore(missing, YEAR).check()


@pytest.mark.parametrize("url", ["", "insight.db", "mysql://h/d", "sqlite://", "://"])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="sqlite:///FILE"):
        database_url(url)


def test_stored_data_is_the_event_as_it_came(engine: Engine, store: EventStore) -> None:
    event = as_json()[0]
    event["data"]["later"] = {"kept": 1}
    store.load(batch_of(event), NOW)
    with engine.connect() as connection:
        [[data]] = connection.exec_driver_sql("SELECT data FROM events").all()
    assert msgspec.json.decode(data) == event["data"]
