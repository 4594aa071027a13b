"""Dying at any write, in any way, and starting anew: the record and the memory never part.

One life of a permit is played again and again; each time another of its writes meets another fate.
"""

import asyncio
import contextlib

import pytest
from support.defender_world import Fate, World, a_policy, an_ask

from defender.client import DefenderUnreachable
from kubenode.api.v1alpha1 import Disruption
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope

ONE = Limit(
    scope=LimitScope.CLUSTER,
    max_concurrent=1,
    classes=[Disruption.HOST, Disruption.PODS, Disruption.NODE],
)
WRITES = 7
"""Create, its status, upgrade, its status, renew, release, and one more."""


async def a_life(world: World, gives_up: bool = False) -> None:
    """Ask, ask for more, renew, give back; a caller's worker may be cancelled at any await.

    gives_up: the first no is the last that is heard of the holder.
    """
    defender = world.defender
    first = await defender.ask(an_ask("n0", Disruption.HOST))
    if gives_up and not first.allowed:
        return
    world.step(minutes=1)
    second = await defender.ask(an_ask("n0", Disruption.NODE))
    if gives_up and not second.allowed:
        return
    world.step(minutes=1)
    await defender.renew(second.permit)
    await defender.release(second.permit)


def consistent(world: World) -> None:
    """Memory counts all that is on record, and what it says to be sure of is on record."""
    ledger = world.defender.ledger
    on_record = {p.metadata.name: p for p in world.api.open_permits()}
    counted = {held.name: held for held in ledger.open()}
    assert on_record.keys() <= counted.keys()
    assert len(on_record) <= 1
    for name, held in counted.items():
        if name not in on_record:
            assert held.unsure
        elif not held.unsure:
            assert [g.class_ for g in on_record[name].spec.grants] == [c for c, _ in held.grants]


@pytest.mark.parametrize("fate", Fate)
@pytest.mark.parametrize("number", range(WRITES))
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("gives_up", [False, True])
async def test_no_interruption_makes_memory_count_less_than_the_record(
    number: int, fate: Fate, restarted: bool, gives_up: bool
) -> None:
    world = World(3, a_policy(ONE))
    await world.start()
    world.api.fates[number] = fate
    with contextlib.suppress(asyncio.CancelledError, DefenderUnreachable):
        await a_life(world, gives_up)
    if restarted:
        await world.restart(behind=True)
    consistent(world)
    with contextlib.suppress(asyncio.CancelledError):
        await world.defender.keeper.round()
        await world.defender.ask(an_ask("n1", kind="Test"))
    world.api.land()
    if not restarted:
        consistent(world)
    await world.defender.keeper.round()
    await world.defender.ask(an_ask("n2", kind="Test"))
    # The create of a dead process may arrive late; nobody alive can have counted it.
    late_create = restarted and fate is Fate.LATE and number == 0
    assert len(world.api.open_permits()) <= (2 if late_create else 1)


@pytest.mark.parametrize("fate", Fate)
@pytest.mark.parametrize("number", range(WRITES))
async def test_the_slot_is_free_again_in_the_end(number: int, fate: Fate) -> None:
    """The holder is gone, too: nobody but Kube Defender can put it right."""
    world = World(3, a_policy(ONE))
    defender = await world.start()
    world.api.fates[number] = fate
    with contextlib.suppress(asyncio.CancelledError, DefenderUnreachable):
        await a_life(world)
    world.api.land()
    world.api.fates.clear()
    for _ in range(5):
        world.step(minutes=1)
        await defender.keeper.round()
    assert world.api.open_permits() == []
    assert defender.ledger.open() == []
    assert (await defender.ask(an_ask("n1"))).allowed
    assert len(defender._turns) == 0
