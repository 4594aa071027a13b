"""time.inWindow: by the clocks of the zone, over clock changes."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rules_builders import a_node, a_rule

from kubenode.api.recurrence import inside
from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.window import TimeWindow, Weekday
from rules.atoms import read
from rules.program import compile_program
from rules.truth import Truth

OFFICE = {"days": ["Mon", "Tue"], "from": "09:00", "to": "16:00", "timeZone": "Europe/Berlin"}


def a_window(**parts: Any) -> TimeWindow:
    return TimeWindow.model_validate(parts)


def at(text: str, zone: str = "Europe/Berlin") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


@pytest.mark.parametrize(
    ("now", "is_in", "flips"),
    [
        ("2026-01-05T08:59:59", False, "2026-01-05T09:00"),
        ("2026-01-05T09:00", True, "2026-01-05T16:00"),
        ("2026-01-05T15:59:59", True, "2026-01-05T16:00"),
        ("2026-01-05T16:00", False, "2026-01-06T09:00"),
        ("2026-01-06T16:00", False, "2026-01-12T09:00"),
    ],
)
def test_window_opens_and_closes_by_the_clocks_of_its_zone(
    now: str, is_in: bool, flips: str
) -> None:
    assert inside(a_window(**OFFICE), at(now)) == (is_in, at(flips))


def test_window_over_midnight_belongs_to_the_day_on_which_it_opens() -> None:
    night = a_window(days=["Sun"], **{"from": "22:00", "to": "04:00"})
    sunday = "2026-01-04T23:00"
    assert inside(night, at(sunday, "UTC")) == (True, at("2026-01-05T04:00", "UTC"))
    assert not inside(night, at("2026-01-04T03:00", "UTC"))[0]


def test_window_of_all_time_never_flips() -> None:
    always = a_window(**{"from": "00:00", "to": "00:00"})
    assert inside(always, at("2026-01-05T12:00")) == (True, None)


def test_windows_that_touch_are_one() -> None:
    two = a_window(days=["Mon", "Tue"], **{"from": "12:00", "to": "12:00"})
    assert inside(two, at("2026-01-05T13:00", "UTC")) == (True, at("2026-01-07T12:00", "UTC"))


@pytest.mark.parametrize(
    ("day", "closes", "hours"),
    [
        ("2026-03-28", "2026-03-28T01:30:00+00:00", 24),
        ("2026-03-29", "2026-03-29T01:30:00+00:00", 23),  # 02:30 is left out: 03:30 it is
        ("2026-10-25", "2026-10-25T00:30:00+00:00", 25),  # 02:30 comes twice: the first counts
    ],
)
def test_clock_changes_move_the_edges(day: str, closes: str, hours: int) -> None:
    """Europe/Berlin: clocks go forward on 29 March and back on 25 October 2026."""
    name = list(Weekday)[datetime.fromisoformat(day).weekday()]
    night = a_window(days=[name], **{"from": "01:30", "to": "02:30", "timeZone": "Europe/Berlin"})
    assert inside(night, at(f"{day}T01:30")) == (True, datetime.fromisoformat(closes))
    whole = a_window(days=[name], **{"from": "00:00", "to": "00:00", "timeZone": "Europe/Berlin"})
    midnight = at(f"{day}T00:00")
    assert inside(whole, midnight) == (True, midnight + timedelta(hours=hours))


@given(
    st.integers(0, 525_600),
    st.sets(st.sampled_from(list(Weekday)), min_size=1),
    st.integers(0, 47),
    st.integers(0, 47),
    st.sampled_from(["UTC", "Asia/Kolkata", "Asia/Shanghai"]),
)
def test_window_is_what_a_naive_evaluator_says(
    minute: int, days: set[Weekday], from_: int, to: int, zone: str
) -> None:
    """Minute by minute around the edge; zones without clock changes, where that is plain."""
    clock = [f"{n // 2:02}:{n % 2 * 30:02}" for n in range(48)]
    window = a_window(
        days=sorted(days), **{"from": clock[from_], "to": clock[to], "timeZone": zone}
    )

    def naive(instant: datetime) -> bool:
        local = instant.astimezone(ZoneInfo(zone))
        text, today = local.strftime("%H:%M"), list(Weekday)[local.weekday()]
        yesterday = list(Weekday)[local.weekday() - 1]
        if to > from_:
            return today in days and clock[from_] <= text < clock[to]
        return (today in days and text >= clock[from_]) or (yesterday in days and text < clock[to])

    instant = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
    is_in, flips = inside(window, instant)
    assert is_in is naive(instant)
    if flips is None:
        assert all(naive(instant + timedelta(minutes=30 * n)) is is_in for n in range(336))
        return
    assert flips > instant
    assert naive(flips) is not is_in
    assert naive(flips - timedelta(seconds=1)) is is_in
    halves = int((flips - instant) / timedelta(minutes=30))
    assert all(naive(instant + timedelta(minutes=30 * n)) is is_in for n in range(halves))


def test_rule_asks_the_window_and_its_opposite() -> None:
    asked = {"fact": {"name": "time.inWindow", "window": OFFICE}}
    assert not compile_program([a_rule("a", unless={"not": asked})]).rejected
    inverse = {"fact": {"name": "time.inWindow", "is": False, "window": OFFICE}}
    for parts, truth in ((asked, Truth.TRUE), (inverse, Truth.FALSE)):
        leaf = Expression.model_validate(parts).leaf
        assert leaf is not None
        found = read(leaf, a_node(), at("2026-01-05T10:00"))
        assert (found.truth, found.flips_at) == (truth, at("2026-01-05T16:00"))


@pytest.mark.parametrize(
    "parts", [{"name": "time.inWindow"}, {"name": "node.ready", "window": OFFICE}]
)
def test_window_is_asked_of_the_time_and_of_nothing_else(parts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"time\.inWindow needs `window`"):
        Expression.model_validate({"fact": parts})
