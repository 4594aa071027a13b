"""Roll-ups of weeks, and sets of nodes, against a computation from the events of a year."""

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, delete, select
from support.insight_history import disposing, opened_store, received
from support.insight_seeding import seed
from support.insight_year import SimulatedYear, cluster_name
from support.insight_year_checks import check_years, year_periods

from insight.analyses.faults import FaultProperty, sum_faults
from insight.analyses.lemons import sum_nodes
from insight.analyses.sources import find_sources
from insight.analyses.week_sources import find_weeks, split_weeks
from insight.store.database import database_url, migrate, open_database
from insight.store.event_store import EventStore
from insight.store.rollup_schema import DayState, fault_days, fault_groups, rollup_days
from insight.store.schema import DAY, MONDAY, milliseconds
from insight.store.week_schema import WEEK, node_weeks, rollup_weeks, value_nodes, week_of
from insight.store.week_store import WeekSpan, missing_weeks

YEAR = SimulatedYear(2000, nodes=80, clusters=4)
UNTIL = YEAR.start + timedelta(days=YEAR.days)
PERIODS = year_periods(UNTIL, cluster_name(1))
FIRST = WEEK - MONDAY
"""The begin of a week."""


@pytest.fixture(scope="module")
def year_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the year."""
    file = tmp_path_factory.mktemp("year") / "insight.db"
    with disposing(opened_store(f"sqlite:///{file}")) as engine:
        seed(engine, YEAR.events())
        roll_up(engine)
    return file


@pytest.fixture
def engine(year_file: Path, tmp_path: Path) -> Iterator[Engine]:
    """A copy of the year."""
    copy = shutil.copy(year_file, tmp_path)
    with disposing(opened_store(f"sqlite:///{copy}")) as engine:
        yield engine


def roll_up(engine: Engine) -> None:
    store = EventStore(engine, timedelta(days=3650))
    for day in store.rollups.list_pending(UNTIL):
        store.rollups.roll_up(day)
    for span in store.weeks.list_missing(UNTIL):
        store.weeks.roll_up(span)


def test_figures_of_a_year_equal_those_of_its_events(engine: Engine) -> None:
    with engine.connect() as connection:
        sources = find_weeks(connection, find_sources(connection, PERIODS[0]).rollups)
    assert len(sources.days) <= 4 and set(sources.weeks) == {1, 8}
    check_years(engine, YEAR.events(), PERIODS)


def test_late_events_are_in_the_figures_before_and_after_the_next_roll_up(engine: Engine) -> None:
    late = list(SimulatedYear(40, nodes=80, clusters=4, seed=6).events())
    EventStore(engine, timedelta(days=3650)).load(received(late), UNTIL)
    check_years(engine, [*YEAR.events(), *late], PERIODS[:1])
    roll_up(engine)
    check_years(engine, [*YEAR.events(), *late], PERIODS[:1])


def test_missing_sets_and_weeks_change_no_figure(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(delete(rollup_weeks).where(rollup_weeks.c.begin % (3 * DAY) == 0))
        connection.execute(delete(value_nodes).where(value_nodes.c.day % (3 * DAY) == 0))
    check_years(engine, YEAR.events(), (PERIODS[0], PERIODS[2]))


def test_roll_up_of_a_day_discards_the_weeks_that_contain_it(engine: Engine) -> None:
    store = EventStore(engine, timedelta(days=3650))
    with engine.connect() as connection:
        begin = connection.execute(select(node_weeks.c.begin).limit(1)).scalar_one()
    store.rollups.roll_up(begin + DAY)
    spans = store.weeks.list_missing(UNTIL)
    assert {WeekSpan(weeks, week_of(begin + DAY, weeks)) for weeks in (1, 8)} == set(spans)


def test_migration_rolls_up_days_again_and_keeps_final_ones(tmp_path: Path) -> None:
    archived, current = PERIODS[0].since.replace(hour=0) + timedelta(days=7), UNTIL.replace(hour=0)
    days = milliseconds(archived), milliseconds(current - timedelta(days=7))
    node = dict.fromkeys((column.name for column in fault_groups.c), "x") | {"id": 1}
    facts = {"faults": 3, "relapses": 0, "first": days[0], "last": days[0]}
    with disposing(open_database(database_url(f"sqlite:///{tmp_path}/old.db"))) as engine:
        migrate(engine, "0003")
        with engine.begin() as connection:
            for day, state in zip(days, (DayState.ARCHIVED, DayState.CURRENT), strict=True):
                connection.execute(rollup_days.insert(), {"day": day, "state": state.value})
            connection.execute(fault_groups.insert(), node)
            connection.execute(fault_days.insert(), {"group_id": 1, "day": days[0], **facts})
        migrate(engine)
        for state in (DayState.PENDING, DayState.CURRENT):
            with engine.connect() as connection:
                states = dict(map(tuple, connection.execute(select(rollup_days))))
                sums = sum_faults(connection, PERIODS[0], FaultProperty.KERNEL)
                nodes = sum_nodes(connection, PERIODS[0])
            assert [(row.value, row.faults, row.nodes) for row in sums] == [("x", 3, 1)]
            assert states == {days[0]: DayState.ARCHIVED, days[1]: state}
            assert [(each.identity, each.faults) for each in nodes] == [(("x", "x", "x"), 3)]
            roll_up(engine)


def test_week_is_missing_until_all_its_days_are_over_and_rolled_up() -> None:
    days = {FIRST: DayState.CURRENT, FIRST + DAY: DayState.ARCHIVED}
    week = WeekSpan(1, FIRST)
    assert missing_weeks(days, (), FIRST + WEEK) == [week]
    assert missing_weeks(days, (), FIRST + WEEK - DAY) == []
    assert missing_weeks(days, (week,), FIRST + WEEK) == []
    assert missing_weeks({**days, FIRST + 2 * DAY: DayState.PENDING}, (), FIRST + WEEK) == []


def test_range_is_covered_by_the_longest_weeks_inside_it() -> None:
    long = week_of(FIRST, 8) + 8 * WEEK
    stored = {WeekSpan(8, long), *(WeekSpan(1, long + n * WEEK) for n in range(-2, 10) if n != 9)}
    sources = split_weeks(((long - WEEK - DAY, long + 10 * WEEK),), stored, (8, 1))
    assert sources.weeks[8] == [(long, long + 8 * WEEK)]
    assert sources.weeks[1] == [(long - WEEK, long), (long + 8 * WEEK, long + 9 * WEEK)]
    assert sources.days == [
        (long - WEEK - DAY, long - WEEK),
        (long + 9 * WEEK, long + 10 * WEEK),
    ]
