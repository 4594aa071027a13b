"""Roll-ups in SQLite: right after any delivery, and final when their events are deleted."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from sqlalchemy import Engine
from support.insight_history import opened_store
from support.insight_rollups import Deliveries, check_archive, check_deliveries, deliveries

from insight.store.histogram import ERROR, LONGEST, bucket_of, middle_of


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = opened_store(f"sqlite:///{tmp_path_factory.mktemp('store')}/insight.db")
    yield made
    made.dispose()


@settings(max_examples=3, deadline=None)
@given(batches=deliveries())
def test_any_delivery_leaves_roll_ups_equal_to_the_events(
    engine: Engine, batches: Deliveries
) -> None:
    check_deliveries(engine, batches)


def test_deleted_events_stay_in_the_roll_ups(engine: Engine) -> None:
    check_archive(engine)


def test_middle_of_a_bucket_is_within_the_stated_error() -> None:
    times = [*range(1, 5000), *(3 * 2**n + d for n in range(34) for d in (-1, 0, 1)), LONGEST]
    assert all(abs(middle_of(bucket_of(time)) - time) <= ERROR * time for time in times)
    assert (bucket_of(LONGEST), bucket_of(LONGEST + 1)) == (1023, 1023)
