"""Clock skew: the leader's clock against the API server's, the nodes' and the next leader's."""

import asyncio
from datetime import timedelta

import pytest
from support.defender_core import ZONE, a_node
from support.defender_world import World, a_policy, an_ask
from support.storm import Zones

from kubenode.api.v1alpha1 import Disruption, Reason
from kubenode.api.v1alpha1.defenderpolicy import BreakerState, Limit, LimitScope, Rate

TEN = timedelta(minutes=10)
SKEWS = pytest.mark.parametrize("skew", [TEN, -TEN], ids=["ahead", "behind"])
OPEN, HALF_OPEN, CLOSED = BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED
BURST = 3
RATE = Rate(count=6, per=timedelta(hours=1), burst=BURST)


def limited() -> World:
    return World(
        20,
        a_policy(Limit(scope=LimitScope.CLUSTER, max_concurrent=4, rate=RATE)),
    )


async def ask_all(world: World) -> int:
    """How many of all nodes' jobs hold a permit after all of them have asked."""
    asks = (world.defender.ask(an_ask(f"n{i}", Disruption.NODE)) for i in range(20))
    return sum(v.allowed for v in await asyncio.gather(*asks))


@SKEWS
async def test_a_leader_with_another_clock_grants_nothing_beyond_the_burst(skew: timedelta) -> None:
    """One grants by its clock, the next one takes over at once and reads what it wrote."""
    world = limited()
    await world.start()
    assert await ask_all(world) == BURST
    world.clock.set_wall(skew)
    await world.restart()
    assert await ask_all(world) <= 4
    assert len(world.api.open_permits()) <= 4
    if skew < timedelta(0):
        assert len(world.api.open_permits()) == BURST


@SKEWS
async def test_leaders_that_take_turns_never_hold_more_than_the_limit(skew: timedelta) -> None:
    world = limited()
    await world.start()
    for turn in range(8):
        await ask_all(world)
        assert len(world.api.open_permits()) <= 4
        world.clock.set_wall(skew if turn % 2 == 0 else -skew)
        await world.restart()


@SKEWS
async def test_a_step_of_the_leaders_own_clock_breaks_no_limit(skew: timedelta) -> None:
    world = limited()
    await world.start()
    await ask_all(world)
    world.clock.set_wall(skew)
    world.current()
    await ask_all(world)
    assert len(world.api.open_permits()) <= 4


@SKEWS
def test_a_storm_is_seen_whatever_the_nodes_clocks_say(skew: timedelta) -> None:
    """`lastTransitionTime` is written by kubelets. By age alone, clocks that run behind would
    make faults of now look old, and ones that run ahead would keep them in the future."""
    zones = Zones()
    names = zones.names["a"][:12]
    zones.nodes(*(a_node(n, {ZONE: "a"}, ready=False, since=zones.now + skew) for n in names))
    zones.step(seconds=0)
    assert zones.breaker("a") is OPEN, "12% of new faults"


@SKEWS
def test_a_storm_is_over_whatever_the_nodes_clocks_say(skew: timedelta) -> None:
    zones = Zones()
    names = zones.names["a"][:40]
    zones.nodes(*(a_node(n, {ZONE: "a"}, ready=False, since=zones.now + skew) for n in names))
    zones.pass_(1)
    zones.nodes(*(a_node(n, {ZONE: "a"}, since=zones.now + skew) for n in names))
    zones.pass_(8.5)
    assert zones.breaker("a") is OPEN
    zones.pass_(1)
    assert zones.breaker("a") is HALF_OPEN


def test_a_clock_set_back_while_open_keeps_the_breaker_open_for_its_time() -> None:
    zones = Zones()
    zones.down(zones.names["a"][:40])
    zones.pass_(1)
    zones.up(zones.names["a"][:40])
    zones.now -= TEN
    zones.pass_(9)
    assert zones.breaker("a") is OPEN
    zones.pass_(3)
    assert zones.breaker("a") is HALF_OPEN


def test_a_clock_set_ahead_while_open_lets_nothing_through_in_the_storm() -> None:
    zones = Zones()
    zones.down(zones.names["a"][:40])
    zones.now += TEN
    zones.step(seconds=1)
    assert zones.breaker("a") is OPEN
    assert zones.asks("a0").reason is Reason.BREAKER_OPEN


@SKEWS
def test_a_grant_of_a_skewed_moment_is_no_leave_for_ever(skew: timedelta) -> None:
    """One that seems to lie ahead counts in the rate until its time has passed, and no longer."""
    zones = Zones()
    zones.now += skew
    first = [n for n in zones.names["a"][:30] if zones.asks(n, Disruption.HOST).allowed]
    zones.now -= skew
    assert len(first) == 15, "5% of 300"
    more = [n for n in zones.names["b"][:30] if zones.asks(n, Disruption.HOST).allowed]
    assert more == []
    for held in list(zones.ledger.open()):
        zones.release(held.name)
    zones.pass_(90)
    assert zones.asks("c0", Disruption.HOST).allowed
