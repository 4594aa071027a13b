"""Atoms are read again when their time has come: never later, and few times."""

from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0
from support.rules_builders import seconds

from rules.due import Due, passed, planned

AFTER = st.integers(1, 100_000)
TIMES = st.dictionaries(st.integers(0, 400), st.one_of(st.none(), AFTER), max_size=30)
"""By slot in how many seconds its answer flips; None: never."""


def instant(after: int) -> datetime:
    return T0 + seconds(after)


def read(due: Due, times: dict[int, int | None], now: datetime) -> Due:
    flips = [(now + seconds(after), slot) for slot, after in times.items() if after is not None]
    return planned(due, times, flips, now)


def is_due(due: Due, slot: int) -> list[datetime]:
    return [at for at, mask in due if mask >> slot & 1]


@given(TIMES, st.integers(0, 1000), TIMES)
def test_no_atom_is_due_after_it_flips_and_each_once(
    first: dict[int, int | None], pause: int, second: dict[int, int | None]
) -> None:
    flips = {slot: instant(after) for slot, after in first.items() if after is not None}
    due = read((), first, T0)
    now = instant(pause)
    late, due = passed(due, now)
    assert late >= {slot for slot, at in flips.items() if at <= now}
    again = second | {slot: 7 for slot in late if slot not in second}
    flips = {slot: at for slot, at in flips.items() if slot not in again}
    flips |= {slot: now + seconds(after) for slot, after in again.items() if after is not None}
    due = read(due, again, now)
    assert [at for at, _ in due] == sorted(at for at, _ in due)
    for slot in {*first, *again}:
        times = is_due(due, slot)
        assert len(times) == (slot in flips)
        assert all(now < at <= flips[slot] for at in times)


def test_what_is_due_is_told_from_that_instant_on() -> None:
    due = read((), {3: 10, 5: 600, 7: None}, T0)
    assert passed(due, instant(9)) == (set(), due)
    late, later = passed(due, instant(10))
    assert late == {3}
    assert passed(later, instant(600)) == ({5}, ())


@given(st.dictionaries(st.integers(0, 400), AFTER, min_size=1))
def test_a_node_has_few_entries(times: dict[int, int | None]) -> None:
    assert len(read((), times, T0)) <= 30


def test_what_comes_soon_after_another_one_is_read_with_it() -> None:
    due = read((), {1: 60, 2: 119, 3: 121}, T0)
    assert [at for at, _ in due] == [instant(60), instant(121)]
    assert is_due(due, 2) == [instant(60)]
