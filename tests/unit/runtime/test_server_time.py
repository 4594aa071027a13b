"""What time it is at the API server, by the Date of its responses."""

from datetime import timedelta

import pytest
from support.clock import T0, FakeClock

from kubenode.runtime.kube.servertime import ServerTime

DATE = "Thu, 01 Jan 2026 12:00:00 GMT"  # T0
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("off", [-7200, -3, 0, 180, 7200])
def test_offset_of_the_host_is_measured_to_a_second(off: int) -> None:
    clock = FakeClock(T0 + off * SECOND)
    time = ServerTime(clock)
    assert (time.offset(), time.latest()) == (None, None)
    time.answered(DATE, clock.monotonic())
    offset, latest = time.offset(), time.latest()
    assert offset is not None and abs(offset - off) <= 0.5
    assert latest is not None and T0 <= latest <= T0 + SECOND


def test_server_time_goes_on_with_ours_when_no_response_comes() -> None:
    clock = FakeClock(T0 + timedelta(hours=2))
    time = ServerTime(clock)
    time.answered(DATE, clock.monotonic())
    clock.step(timedelta(minutes=3))
    assert time.latest() == T0 + timedelta(minutes=3) + SECOND


def test_offset_is_unknown_and_time_the_latest_possible_when_the_clock_was_set() -> None:
    clock = FakeClock()
    time = ServerTime(clock)
    time.answered(DATE, clock.monotonic())
    clock.set_wall(timedelta(hours=3))  # or the host slept: its monotonic clock does not tell
    assert time.offset() is None
    assert time.latest() == T0 + timedelta(hours=3) + SECOND
    clock.set_wall(-timedelta(hours=6))
    assert time.latest() == T0 + SECOND


def test_slow_response_does_not_replace_a_better_one() -> None:
    clock = FakeClock()
    time = ServerTime(clock)
    time.answered(DATE, clock.monotonic())
    clock.step(30 * SECOND)
    time.answered("Thu, 01 Jan 2026 12:00:01 GMT", clock.monotonic() - 29)
    assert time.latest() == T0 + 31 * SECOND
    clock.step(31 * SECOND)
    time.answered("Thu, 01 Jan 2026 12:01:00 GMT", clock.monotonic() - 10)
    assert time.latest() == T0 + 71 * SECOND


@pytest.mark.parametrize("date", [None, "", "soon", "Thu, 01 Jan 2026"])
def test_response_without_a_date_tells_nothing(date: str | None) -> None:
    clock = FakeClock()
    time = ServerTime(clock)
    time.answered(date, clock.monotonic())
    assert (time.offset(), time.latest()) == (None, None)
