"""F41: nothing new starts outside a window, whatever clocks do; what was begun goes on."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.defender_core import Core, a_policy, an_ask

from defender.server.calendar import next_edges
from kubenode.api.recurrence import next_change
from kubenode.api.v1alpha1 import Disruption, Operation, Reason
from kubenode.api.v1alpha1.defenderpolicy import Window

BERLIN = ZoneInfo("Europe/Berlin")
LIMITS = [{"scope": "Cluster", "maxConcurrent": 5}]
OFFICE = {"from": "09:00", "to": "16:00", "timeZone": "Europe/Berlin"}
NIGHT = {"from": "22:00", "to": "04:00", "timeZone": "Europe/Berlin"}
MONDAY = datetime(2026, 1, 5, tzinfo=BERLIN)


def at(day: int, hour: int, minute: int = 0, month: int = 1) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=BERLIN).astimezone(UTC)


def a_core(*windows: dict[str, Any], now: datetime) -> Core:
    core = Core(a_policy(limits=LIMITS, windows=list(windows)), now=now)
    core.fleet(20)
    return core


def is_open(core: Core, now: datetime) -> bool:
    core.now = now
    verdict = core.judge(an_ask("n0", operation=Operation.ROLLOUT))
    assert verdict.reason in (Reason.GRANTED, Reason.WINDOW_CLOSED)
    return verdict.allowed


def test_f41_outside_the_window_nothing_starts_and_the_opening_is_told() -> None:
    core = a_core(OFFICE | {"days": ["Mon"]}, now=at(5, 16))
    refused = core.judge(an_ask("n0"))
    assert refused.reason is Reason.WINDOW_CLOSED
    assert refused.look_again_at is not None
    assert timedelta(0) <= refused.look_again_at - at(12, 9) < timedelta(seconds=15)
    others = {core.judge(an_ask(f"n{i}")).look_again_at for i in range(20)}
    assert len(others) > 10  # they do not come all at once


@pytest.mark.parametrize(
    ("minute", "open_"), [((8, 59), False), ((9, 0), True), ((15, 59), True), ((16, 0), False)]
)
def test_a_window_has_its_first_minute_and_not_its_last(
    minute: tuple[int, int], open_: bool
) -> None:
    assert is_open(a_core(OFFICE, now=at(5, 0)), at(5, *minute)) is open_


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_opens() -> None:
    core = a_core(NIGHT | {"days": ["Fri"]}, now=at(5, 0))
    assert is_open(core, at(9, 23)) and is_open(core, at(10, 3, 59))
    assert not is_open(core, at(10, 4)) and not is_open(core, at(10, 23))
    assert not is_open(core, at(9, 3))


def test_several_windows_are_their_union_and_each_is_for_its_operations() -> None:
    early = OFFICE | {"for": ["Repair"], "from": "05:00", "to": "06:00"}
    core = a_core(OFFICE, NIGHT, early, now=at(5, 0))
    assert [is_open(core, at(5, hour)) for hour in (3, 5, 10, 17, 23)] == [
        True, False, True, False, True,
    ]  # fmt: skip
    core.now = at(5, 5, 30)
    assert core.judge(an_ask("n0")).allowed


def test_operations_without_a_window_are_always_free() -> None:
    core = a_core(OFFICE | {"for": ["Rollout"]}, now=at(5, 20))
    assert core.judge(an_ask("n0")).allowed
    assert not is_open(core, at(5, 20))


def test_f41_across_a_clock_change_the_window_follows_the_clocks_on_the_wall() -> None:
    core = a_core(OFFICE | {"days": ["Sat", "Sun", "Mon"]}, now=at(28, 0, month=3))
    for day in (28, 29, 30):  # on the 29th of March 2026 clocks go from 02:00 to 03:00
        assert not is_open(core, at(day, 8, 59, month=3))
        assert is_open(core, at(day, 9, month=3)) and is_open(core, at(day, 15, 59, month=3))
        assert not is_open(core, at(day, 16, month=3))


def test_f41_a_permit_that_is_held_goes_on_and_a_stronger_class_waits() -> None:
    core = a_core(OFFICE, now=at(5, 15, 59))
    held = core.ask(an_ask("n0", Disruption.PODS))
    assert held.allowed
    core.now = at(5, 16)
    assert core.ask(an_ask("n0", Disruption.PODS)).permit == held.permit
    assert core.ask(an_ask("n0", Disruption.NODE)).reason is Reason.WINDOW_CLOSED
    assert core.ask(an_ask("n1", Disruption.PODS)).reason is Reason.WINDOW_CLOSED
    core.now = at(6, 9)
    assert core.ask(an_ask("n0", Disruption.NODE)).permit == held.permit


windows = st.lists(
    st.builds(
        lambda days, begin, end, zone: Window.model_validate(
            {"days": sorted(days), "from": begin, "to": end, "timeZone": zone}
        ),
        st.sets(st.sampled_from(["Mon", "Tue", "Wed", "Sat", "Sun"]), min_size=1),
        st.sampled_from(["00:00", "01:30", "02:30", "09:00", "23:59"]),
        st.sampled_from(["00:00", "02:00", "03:00", "12:00", "22:30"]),
        st.sampled_from(["Europe/Berlin", "UTC", "America/New_York", "Australia/Lord_Howe"]),
    ),
    min_size=1,
    max_size=4,
)


def by_hand(window: Window, now: datetime) -> bool:
    """By what the clocks on the wall show now, where none of them was changed of late."""
    local = now.astimezone(ZoneInfo(window.time_zone))
    shown, days = f"{local:%H:%M}", [str(day) for day in window.days]
    today, yesterday = f"{local:%a}", f"{local - timedelta(days=1):%a}"
    if window.from_ < window.to:
        return today in days and window.from_ <= shown < window.to
    return (today in days and shown >= window.from_) or (yesterday in days and shown < window.to)


@settings(deadline=None, max_examples=30)
@given(windows, st.integers(0, 60 * 24 * 14))
def test_every_minute_is_in_the_union_as_the_clocks_say(found: list[Window], minutes: int) -> None:
    now = MONDAY.astimezone(UTC) + timedelta(minutes=minutes)
    given = [window.model_dump(mode="json", by_alias=True, exclude_none=True) for window in found]
    core = Core(a_policy(limits=LIMITS, windows=given), now=now)
    core.fleet(20)
    open_ = is_open(core, now)
    assert open_ == any(by_hand(window, now) for window in found)
    change = next_change(found, now)
    if change is not None:
        edge, opens = change
        assert opens is not open_ and edge > now
        assert any(by_hand(window, edge) for window in found) is opens
        before = edge - timedelta(minutes=1)
        assert any(by_hand(window, before) for window in found) is open_


def test_the_calendar_knows_what_changes_next() -> None:
    until = at(5, 12)
    policy = a_policy(
        limits=LIMITS,
        windows=[OFFICE | {"for": ["Rollout", "Delete"]}],
        pauses=[{"until": until.isoformat(), "scope": "Node", "value": "n1"}],
    )
    first = next_edges([policy], at(5, 8))
    assert [(edge.at, edge.what) for edge in first] == [
        (at(5, 9), "the window for Rollout opens"),
        (at(5, 9), "the window for Delete opens"),
    ]
    (pause,) = next_edges([policy], at(5, 9))
    assert (pause.at, pause.what) == (until, "the pause of node=n1 ends")
    assert [edge.at for edge in next_edges([policy], until)] == [at(5, 16)] * 2
