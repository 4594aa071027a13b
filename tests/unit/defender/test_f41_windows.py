"""F41: outside its window nothing new starts: over a change of the clocks, and in mid-batch."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from support.defender_core import NEVER_TRIPS, Core, a_node, a_policy, an_ask

from kubenode.api.v1alpha1 import Ask, Disruption, Operation, Reason, Verdict

NODE, HOST = Disruption.NODE, Disruption.HOST
NIGHT = {"days": ["Sun"], "from": "01:30", "to": "03:30", "timeZone": "Europe/Berlin"}
OFFICE = {
    "days": ["Mon", "Tue", "Wed", "Thu", "Fri"],
    "from": "09:00",
    "to": "16:00",
    "timeZone": "Europe/Berlin",
}


def utc(month: int, day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=UTC)


def a_core(window: Mapping[str, object], now: datetime, at_once: int = 2) -> Core:
    policy = a_policy(
        limits=[{"scope": "Cluster", "maxConcurrent": at_once}],
        windows=[dict(window) | {"for": ["Rollout"]}],
        breaker=NEVER_TRIPS,
    )
    core = Core(policy, now=now)
    for i in range(10):
        core.nodes(a_node(f"n{i}", born=now - timedelta(days=30)))
    return core


def rollout(node: str, class_: Disruption = NODE) -> Ask:
    return an_ask(node, class_, operation=Operation.ROLLOUT)


def reason(window: Mapping[str, object], now: datetime) -> Reason:
    return a_core(window, now).judge(rollout("n0")).reason


@pytest.mark.parametrize(
    ("opens", "closes"),
    [
        (utc(3, 22, 0, 30), utc(3, 22, 2, 30)),  # winter time: two hours
        (utc(3, 29, 0, 30), utc(3, 29, 1, 30)),  # 02:00 becomes 03:00: one hour
        (utc(10, 18, 23, 30) - timedelta(days=1), utc(10, 18, 1, 30)),  # summer time: two hours
        (utc(10, 24, 23, 30), utc(10, 25, 2, 30)),  # 03:00 becomes 02:00: three hours
    ],
    ids=["winter", "spring forward", "summer", "fall back"],
)
def test_f41_a_night_window_is_open_by_the_clock_on_the_wall(
    opens: datetime, closes: datetime
) -> None:
    minute = timedelta(minutes=1)
    assert reason(NIGHT, opens - minute) is Reason.WINDOW_CLOSED
    assert reason(NIGHT, opens) is Reason.GRANTED
    assert reason(NIGHT, closes - minute) is Reason.GRANTED
    assert reason(NIGHT, closes) is Reason.WINDOW_CLOSED


def test_f41_the_hour_that_comes_twice_opens_no_window_that_lies_before_it() -> None:
    """01:30 to 02:00 ends when the clock shows 02:00 for the first time."""
    early = NIGHT | {"from": "01:30", "to": "02:00"}
    assert reason(early, utc(10, 24, 23, 59)) is Reason.GRANTED
    assert reason(early, utc(10, 25, 0, 0)) is Reason.WINDOW_CLOSED
    assert reason(early, utc(10, 25, 1, 0)) is Reason.WINDOW_CLOSED


def test_f41_office_hours_move_with_the_clocks() -> None:
    friday, monday = utc(3, 27, 8), utc(3, 30, 7)
    assert reason(OFFICE, friday - timedelta(hours=1)) is Reason.WINDOW_CLOSED
    assert reason(OFFICE, friday) is Reason.GRANTED
    assert reason(OFFICE, monday) is Reason.GRANTED
    assert reason(OFFICE, monday + timedelta(hours=7)) is Reason.WINDOW_CLOSED


def test_f41_who_asks_over_the_weekend_of_the_change_is_told_the_right_hour() -> None:
    asked = utc(3, 28, 12)
    verdict = a_core(OFFICE, asked).judge(rollout("n0"))
    assert verdict.look_again_at is not None
    late = verdict.look_again_at - utc(3, 30, 7)
    assert timedelta(0) <= late <= timedelta(minutes=1)


class TestClosesInMidBatch:
    """Ten nodes are to be updated, two at once; the window closes while two are under way."""

    @pytest.fixture
    def batch(self) -> tuple[Core, list[Verdict]]:
        core = a_core(OFFICE, utc(3, 27, 14, 59))
        verdicts = [core.ask(rollout(f"n{i}")) for i in range(10)]
        core.step(minutes=2)
        return core, verdicts

    def test_f41_two_are_under_way_and_eight_wait(self, batch: tuple[Core, list[Verdict]]) -> None:
        assert [v.allowed for v in batch[1]] == [True, True] + [False] * 8

    def test_f41_none_of_those_that_wait_starts(self, batch: tuple[Core, list[Verdict]]) -> None:
        core, verdicts = batch
        core.release(verdicts[0].permit)
        core.step(seconds=1)
        assert {core.ask(rollout(f"n{i}")).reason for i in range(2, 10)} == {Reason.WINDOW_CLOSED}

    def test_f41_those_under_way_may_go_on(self, batch: tuple[Core, list[Verdict]]) -> None:
        core, verdicts = batch
        assert core.ask(rollout("n1")).permit == verdicts[1].permit

    def test_f41_a_stronger_act_is_a_new_start(self) -> None:
        core = a_core(OFFICE, utc(3, 27, 14, 59))
        mild = core.ask(rollout("n0", HOST))
        assert mild.allowed
        core.step(minutes=2)
        assert core.ask(rollout("n0", NODE)).reason is Reason.WINDOW_CLOSED

    def test_f41_repairs_are_none_of_the_windows_business(
        self, batch: tuple[Core, list[Verdict]]
    ) -> None:
        core, verdicts = batch
        core.release(verdicts[0].permit)
        core.step(seconds=1)
        assert core.ask(an_ask("n5", NODE)).allowed

    def test_f41_it_goes_on_when_the_window_opens_again(
        self, batch: tuple[Core, list[Verdict]]
    ) -> None:
        core, verdicts = batch
        for verdict in verdicts[:2]:
            core.release(verdict.permit)
        core.now = utc(3, 30, 7, 1)
        core.step(seconds=1)
        assert [core.ask(rollout(f"n{i}")).allowed for i in range(2, 10)].count(True) == 2
