"""A rollout is taken over by a leader whose clock is off: nothing ends early, nothing fails."""

from datetime import timedelta

import pytest
from support.rollout_model import TICK, World, fleet, quick

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
SKEWS = pytest.mark.parametrize(
    "off", [2 * HOUR, 10 * MINUTE, -10 * MINUTE, -2 * HOUR], ids=["+2h", "+10m", "-10m", "-2h"]
)


@SKEWS
def test_bake_lasts_its_whole_time_when_a_leader_with_another_clock_takes_over(
    off: timedelta,
) -> None:
    bake = timedelta(minutes=5)
    world = World.of(*fleet(6), strategy=quick(batches=[1], bake_time="5m"))
    world.to_phase("Baking")
    world.lead_with_clock(off)
    first = world.assigned("B")
    began = world.now
    while world.assigned("B") == first and world.now < began + 4 * bake:
        world.turn()
    assert bake <= world.now - began <= bake + 3 * TICK


@SKEWS
def test_no_rollout_stops_or_goes_back_when_a_leader_with_another_clock_takes_over(
    off: timedelta,
) -> None:
    for taken_over_at in range(1, 40, 3):
        world = World.of(*fleet(6), strategy=quick(batches=[2], max_unavailable=2))
        world.run(taken_over_at)
        world.lead_with_clock(off)
        world.run(400, lambda world: world.rollout.phase == "Completed")
        assert world.on("B") == sorted(world.hosts), (taken_over_at, world.phases)
        assert not {"Paused", "RollingBack"} & set(world.phases)


@SKEWS
def test_machine_that_never_ends_is_late_after_its_time_by_our_clock(off: timedelta) -> None:
    world = World.of(*fleet(4), strategy=quick(machine_timeout="15m"))
    world.turn()
    (touched,) = world.assigned("B")
    world.hosts[touched].answers = False
    world.run(3)
    world.lead_with_clock(off)
    began = world.now
    world.run(400, lambda world: world.rollout.phase == "Paused")
    latest = 17 + (10 if off == -10 * MINUTE else 0)  # once its begin is no longer in the future
    assert 15 * MINUTE <= world.now - began <= latest * MINUTE
