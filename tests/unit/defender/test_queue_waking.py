"""A slot that became free is filled at once: whoever listens hears who is next in line."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.clock import settle
from support.defender_world import POLICIES, World, a_policy, an_ask
from support.running import running

from defender.service import Defender
from kubenode.api.v1alpha1 import Disruption
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope, Pause

ONE = Limit(scope=LimitScope.CLUSTER, max_concurrent=1)


@asynccontextmanager
async def listening(defender: Defender) -> AsyncIterator[list[str]]:
    """Nodes of the holders that were woken, while the waker runs."""
    heard: list[str] = []

    async def listen() -> None:
        async for holder in defender.wakes():
            heard.append(holder.name.removeprefix("job-"))

    async with running(defender.waker.run()), running(listen()):
        await settle()
        yield heard


async def a_world() -> World:
    world = World(6, a_policy(ONE))
    await world.start()
    world.defender.control.breakers.loaded = True
    return world


async def test_who_is_next_is_woken_when_a_permit_is_given_back() -> None:
    world = await a_world()
    async with listening(world.defender) as heard:
        first = await world.defender.ask(an_ask("n0"))
        for node in ("n1", "n2"):
            assert not (await world.defender.ask(an_ask(node))).allowed
        await settle()
        assert heard == []
        await world.defender.release(first.permit)
        await settle()
        assert heard == ["n1"], "no time has passed"
        assert not (await world.defender.ask(an_ask("n3"))).allowed
        assert (await world.defender.ask(an_ask("n1"))).allowed


async def test_who_waits_for_a_pause_is_woken_when_it_is_lifted() -> None:
    world = await a_world()
    async with listening(world.defender) as heard:
        world.api.put(POLICIES, a_policy(ONE, pauses=[Pause()]).to_dict())
        assert not (await world.defender.ask(an_ask("n1"))).allowed
        await settle()
        world.api.put(POLICIES, a_policy(ONE).to_dict())
        await settle()
        assert heard == ["n1"]


async def test_nobody_is_woken_in_vain_while_nothing_could_be_answered() -> None:
    world = await a_world()
    async with listening(world.defender) as heard:
        first = await world.defender.ask(an_ask("n0"))
        await world.defender.ask(an_ask("n1"))
        world.current(False)
        held = world.defender.ledger.get(first.permit)
        assert held is not None
        world.defender.ledger.release(held, world.clock.now())
        await settle()
        assert heard == []


async def test_when_nobody_listens_any_more_no_slot_is_kept() -> None:
    world = await a_world()
    async with listening(world.defender):
        assert world.defender.waker.listeners == 1
    await asyncio.sleep(0)
    first = await world.defender.ask(an_ask("n0", Disruption.NODE))
    await world.defender.ask(an_ask("n1"))
    await world.defender.release(first.permit)
    assert (await world.defender.ask(an_ask("n2"))).allowed
