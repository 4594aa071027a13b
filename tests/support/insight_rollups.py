"""Roll-ups between deliveries of any order, against a computation from the raw events."""

import math
from collections.abc import Sequence
from datetime import timedelta

from hypothesis import strategies as st
from sqlalchemy import Engine, func, select
from support import insight_checks
from support.insight_checks import PERIOD, expected_healing, expected_lemons, expected_stages
from support.insight_history import received
from support.insight_loads import emptied

from insight.analyses.faults import FaultProperty, count_faults, count_values, sum_faults
from insight.analyses.interval import Interval
from insight.analyses.lemons import list_lemons
from insight.analyses.repair_outcomes import HealingRow, summarize_healing
from insight.analyses.repair_sums import StageTime
from insight.analyses.selection import HistorySelection
from insight.analyses.sources import find_sources
from insight.analyses.trend import count_outcomes, measure_stages
from insight.store.event_store import EventStore
from insight.store.histogram import ERROR
from insight.store.schema import events

NOW = PERIOD.until + timedelta(days=30)
YEARS = timedelta(days=3650)
Deliveries = list[tuple[list[int], bool]]
"""Batches of indices into EVENTS, and whether days are rolled up after the batch."""


@st.composite
def deliveries(draw: st.DrawFn) -> Deliveries:
    """Each event at least once, in any order, with repetitions."""
    dice = draw(st.randoms(use_true_random=False))
    every = list(range(len(insight_checks.EVENTS)))
    if draw(st.booleans()):
        dice.shuffle(every)
    every += dice.sample(every, draw(st.integers(0, 100)))
    size = draw(st.integers(300, 800))
    batches = [every[n : n + size] for n in range(0, len(every), size)]
    return [(batch, draw(st.booleans())) for batch in batches]


def roll_up(engine: Engine) -> None:
    """Roll up all pending days and all weeks, as after a restart."""
    store = EventStore(engine, YEARS)
    for day in store.rollups.list_pending(NOW):
        store.rollups.roll_up(day)
    for span in store.weeks.list_missing(NOW):
        store.weeks.roll_up(span)


def check_deliveries(engine: Engine, batches: Deliveries) -> None:
    emptied(engine)
    for batch, rolled in batches:
        EventStore(engine, YEARS).load(received(insight_checks.EVENTS[n] for n in batch), NOW)
        if rolled:
            roll_up(engine)
    check_figures(engine)
    roll_up(engine)
    with engine.connect() as connection:
        assert len(find_sources(connection, PERIOD).events) == 2  # begin and end
    check_figures(engine)


def check_figures(engine: Engine) -> None:
    """Counts are exact, percentiles within the bound."""
    with engine.connect() as connection:
        for by in FaultProperty:
            week = Interval.WEEK
            sums = insight_checks.expected_sums(by)
            assert count_faults(connection, PERIOD, by, week) == insight_checks.expected_faults(
                by, week
            )
            assert sum_faults(connection, PERIOD, by) == sums
            values = [row.value for row in sums[:2]]
            rows = count_values(connection, PERIOD, by, week, values)
            for value, total in [(row.value, row.faults) for row in sums[:2]]:
                assert sum(row.faults for row in rows if row.value == value) == total
            assert sum(row.faults for row in rows) == sum(row.faults for row in sums)
        assert list_lemons(connection, PERIOD, 8) == expected_lemons(8)
        outcomes = count_outcomes(connection, PERIOD, Interval.DAY)
        assert outcomes == insight_checks.expected_outcomes(Interval.DAY)
        _check_healing(summarize_healing(connection, PERIOD), expected_healing())
        stages = measure_stages(connection, PERIOD, Interval.WEEK)
    expected = expected_stages(Interval.WEEK)
    assert [(row.start, row.stage) for row in stages] == [(r.start, r.stage) for r in expected]
    for row, exact in zip(stages, expected, strict=True):
        _check_time(
            StageTime(row.jobs, row.p50, row.p95), StageTime(exact.jobs, exact.p50, exact.p95)
        )


def _check_healing(rows: Sequence[HealingRow], expected: Sequence[HealingRow]) -> None:
    for row, exact in zip(rows, expected, strict=True):
        for name in ("rule", "rung", "jobs", "succeeded", "failed", "relapsed", "escalated"):
            assert getattr(row, name) == getattr(exact, name), name
        assert set(row.stages) == set(exact.stages)
        for stage, times in row.stages.items():
            _check_time(times, exact.stages[stage])


def _check_time(time: StageTime, exact: StageTime) -> None:
    assert time.jobs == exact.jobs
    assert math.isclose(time.p50, exact.p50, rel_tol=ERROR * 1.001)
    assert math.isclose(time.p95, exact.p95, rel_tol=ERROR * 1.001)


def check_archive(engine: Engine) -> None:
    """Deleting events changes no figure of whole days, and late events stay away."""
    emptied(engine)
    store = EventStore(engine, timedelta(days=60))
    EventStore(engine, YEARS).load(received(insight_checks.EVENTS), NOW)
    whole = _figures(engine)
    with engine.connect() as connection:
        stored = connection.execute(select(func.count()).select_from(events)).scalar_one()
    assert store.delete_expired(NOW + YEARS) == stored > 0
    assert _figures(engine) == whole
    late = EventStore(engine, YEARS * 2).load(received(insight_checks.EVENTS), NOW)
    assert late.stored == 0


def _figures(engine: Engine) -> object:
    start = PERIOD.since - timedelta(days=30, hours=PERIOD.since.hour)
    period = HistorySelection(start, start + timedelta(days=100))
    with engine.connect() as connection:
        return (
            sum_faults(connection, period, FaultProperty.KERNEL),
            list_lemons(connection, period, 1),
            count_outcomes(connection, period, Interval.DAY),
        )
