"""Disturbances of the simulated day: a plan that its seed makes anew, and clocks that are set."""

from datetime import timedelta
from itertools import pairwise

import pytest
from chaos.disturbances import LONGEST, Disturbance, SteppedClock, plan_disturbances
from support.clock import T0, FakeClock

KINDS = tuple(Disturbance)
SEEDS = range(20)


def test_disturbance_plan_is_the_same_for_the_same_seed() -> None:
    one, other = (plan_disturbances(7, 600, 5, KINDS) for _ in range(2))
    assert one == other
    assert one != plan_disturbances(8, 600, 5, KINDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_disturbance_plan_is_in_order_and_over_when_the_run_is(seed: int) -> None:
    plan = plan_disturbances(seed, 600, 5, KINDS)
    assert plan
    assert all(one.at >= 0 and one.at + one.lasts <= 600 for one in plan)
    assert all(0 < one.lasts <= LONGEST and 0 <= one.share < 1 for one in plan)
    assert all(a.at <= b.at for a, b in pairwise(plan))


def test_disturbance_plan_holds_every_kind_and_no_other_than_asked() -> None:
    assert {one.kind for one in plan_disturbances(7, 6000, 5, KINDS)} == set(KINDS)
    only = plan_disturbances(7, 6000, 5, (Disturbance.STATUS_WIPED,))
    assert {one.kind for one in only} == {Disturbance.STATUS_WIPED}
    assert plan_disturbances(7, 6000, 5, ()) == []


def test_stepped_clock_changes_wall_time_and_leaves_monotonic_time_alone() -> None:
    base = FakeClock()
    clock = SteppedClock(base)
    before = clock.monotonic()
    clock.offset = timedelta(minutes=-10)
    assert clock.now() == T0 - timedelta(minutes=10)
    assert clock.monotonic() == before
