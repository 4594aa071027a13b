"""The analyses in SQLite give what a computation from the raw events gives."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import Engine
from support.clock import T0
from support.insight_checks import (
    check_faults,
    check_healing,
    check_incidents,
    check_lemons,
    check_sums,
    check_trend,
    filled,
)
from support.insight_history import opened_store

from insight.analyses.faults import FaultProperty, count_faults
from insight.analyses.interval import Interval
from insight.analyses.lemons import list_lemons
from insight.analyses.repair_outcomes import summarize_healing
from insight.analyses.selection import HistorySelection


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = opened_store(f"sqlite:///{tmp_path_factory.mktemp('store')}/insight.db")
    filled(made)
    yield made
    made.dispose()


@pytest.mark.parametrize("by", FaultProperty)
def test_sums_of_faults_equal_a_computation_from_the_events(
    engine: Engine, by: FaultProperty
) -> None:
    check_sums(engine, by)


@pytest.mark.parametrize("interval", Interval)
def test_trend_equals_a_computation_from_the_events(engine: Engine, interval: Interval) -> None:
    check_trend(engine, interval)


def test_incidents_equal_the_events(engine: Engine) -> None:
    check_incidents(engine)


def test_healing_equals_a_computation_from_the_events(engine: Engine) -> None:
    check_healing(engine)


@pytest.mark.parametrize("by", FaultProperty)
@pytest.mark.parametrize("interval", Interval)
def test_faults_equal_a_computation_from_the_events(
    engine: Engine, by: FaultProperty, interval: Interval
) -> None:
    check_faults(engine, by, interval)


def test_lemons_equal_a_computation_from_the_events(engine: Engine) -> None:
    check_lemons(engine)


def test_period_without_events_gives_no_rows(engine: Engine) -> None:
    period = HistorySelection(T0 - timedelta(days=9), T0 - timedelta(days=8))
    with engine.connect() as connection:
        assert summarize_healing(connection, period) == []
        assert count_faults(connection, period, FaultProperty.ZONE, Interval.DAY) == []
        assert list_lemons(connection, period, 1) == []
