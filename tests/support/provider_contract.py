"""What every provider of machines must do, whichever it is: one suite for all of them.

A test module makes a subclass with a fixture `world` that yields its ProviderWorld:

    class TestMine(ProviderContract):
        @pytest.fixture
        def world(self) -> Iterator[ProviderWorld]: ...
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from enum import StrEnum
from typing import Protocol

import pytest

from kubenode.providers.errors import (
    Busy,
    Denied,
    ProviderError,
    Refused,
    Throttled,
    Unreachable,
    Unsupported,
)
from kubenode.providers.port import PowerState, Provider, ProviderMachine

WITHIN = 60.0
"""Seconds in which any answer must be there, also that there is none."""
SHORT, LONG = 1, 50
"""Seconds that a provider waits for an answer, where none comes and where one does."""


class Trouble(StrEnum):
    THROTTLED = "Throttled"
    DENIED = "Denied"
    BUSY = "Busy"
    BROKEN = "Broken"
    """The provider answers that something went wrong on its side."""
    REFUSED_CONNECTION = "RefusedConnection"
    SILENT = "Silent"
    """The request arrives, and no answer comes."""


MEANING: dict[Trouble, type[ProviderError]] = {
    Trouble.THROTTLED: Throttled,
    Trouble.DENIED: Denied,
    Trouble.BUSY: Busy,
    Trouble.BROKEN: Unreachable,
    Trouble.REFUSED_CONNECTION: Unreachable,
    Trouble.SILENT: Unreachable,
}


class ProviderWorld(Protocol):
    """A provider over machines that the test can look at.

    machine   runs when the test begins; its Node bears the right name
    unknown   the provider takes it for its own, and there is no such machine
    foreign   of another provider, region, account or place
    missing   what an unknown machine is answered with
    boots     how often `machine` has begun to boot since the test began
    troubles  those that `begin` can make
    secrets   texts that must never be told
    """

    provider: Provider
    machine: ProviderMachine
    unknown: ProviderMachine
    foreign: ProviderMachine
    missing: type[ProviderError]
    troubles: frozenset[Trouble]
    secrets: tuple[str, ...]

    @property
    def boots(self) -> int: ...

    async def settle(self) -> None:
        """Let everything that was asked come about."""
        ...

    def begin(self, trouble: Trouble) -> None:
        """From now on `provider` meets it with each request. It may be another object then."""
        ...


class ProviderContract:
    async def test_a_machine_is_its_own_and_a_foreign_one_is_not(
        self, world: ProviderWorld
    ) -> None:
        assert world.provider.owns(world.machine)
        assert world.provider.owns(world.unknown)
        assert not world.provider.owns(world.foreign)
        assert not world.provider.owns(replace(world.machine, provider_id="", annotations={}))

    async def test_a_machine_goes_off_and_on_again_and_says_so(self, world: ProviderWorld) -> None:
        assert await state(world) is PowerState.ON
        await world.provider.off(world.machine, "job.r0s0a1")
        assert await state(world) in (PowerState.ON, PowerState.STOPPING, PowerState.OFF)
        await world.settle()
        off = await world.provider.power(world.machine)
        assert off.state is PowerState.OFF and off.state.dark and off.raw
        assert world.boots == 0
        await world.provider.on(world.machine, "job.r0s1a1")
        assert await state(world) in (PowerState.OFF, PowerState.STARTING, PowerState.ON)
        await world.settle()
        assert await state(world) is PowerState.ON
        assert world.boots == 1

    async def test_asking_again_for_off_or_on_does_no_harm(self, world: ProviderWorld) -> None:
        await world.provider.on(world.machine, "job.r0s0a1")
        await world.settle()
        assert world.boots == 0
        for request in ("job.r0s1a1", "job.r0s1a1", "job.r0s1a2"):
            await world.provider.off(world.machine, request)
        await world.settle()
        await world.provider.off(world.machine, "job.r0s1a1")
        assert await state(world) is PowerState.OFF
        for request in ("job.r0s2a1", "job.r0s2a1", "job.r0s2a2"):
            await world.provider.on(world.machine, request)
        await world.settle()
        await world.provider.on(world.machine, "job.r0s2a1")
        assert (await state(world), world.boots) == (PowerState.ON, 1)

    async def test_a_reset_boots_the_machine_anew(self, world: ProviderWorld) -> None:
        await world.provider.reset(world.machine, "job.r0s0a1")
        await world.settle()
        assert (await state(world), world.boots) == (PowerState.ON, 1)
        if world.provider.can.repeatable:
            await world.provider.reset(world.machine, "job.r0s0a1")
            await world.settle()
            assert world.boots == 1
        await world.provider.reset(world.machine, "job.r0s0a2")
        await world.settle()
        assert world.boots == 2

    async def test_a_machine_that_is_off_is_not_reset(self, world: ProviderWorld) -> None:
        await world.provider.off(world.machine, "job.r0s0a1")
        await world.settle()
        with pytest.raises(Refused):
            await world.provider.reset(world.machine, "job.r0s1a1")
        await world.settle()
        assert (await state(world), world.boots) == (PowerState.OFF, 0)

    async def test_a_machine_that_nobody_knows_is_not_said_to_be_dark(
        self, world: ProviderWorld
    ) -> None:
        for ask in operations(world, world.unknown):
            with pytest.raises(ProviderError) as told:
                await ask()
            assert isinstance(told.value, world.missing | Unsupported)

    async def test_nothing_is_done_to_a_machine_that_is_another_nodes(
        self, world: ProviderWorld
    ) -> None:
        other = replace(world.machine, node=another(world.machine.node))
        for ask in operations(world, other)[1:]:
            with pytest.raises(ProviderError) as told:
                await ask()
            assert isinstance(told.value, Refused | Unsupported)
        await world.settle()
        assert (await state(world), world.boots) == (PowerState.ON, 0)

    async def test_what_a_provider_cannot_do_it_says_beforehand(self, world: ProviderWorld) -> None:
        if not world.provider.can.replace:
            with pytest.raises(Unsupported):
                await world.provider.replace(world.machine, "job.r0s0a1")
        if not world.provider.can.approve:
            with pytest.raises(Unsupported):
                await world.provider.approve(world.machine, "event-1")

    @pytest.mark.parametrize("trouble", [t for t in Trouble if t is not Trouble.SILENT])
    async def test_every_trouble_is_told_as_what_it_is(
        self, world: ProviderWorld, trouble: Trouble
    ) -> None:
        if trouble not in world.troubles:
            pytest.skip(f"this provider does not meet {trouble}")
        world.begin(trouble)
        async with asyncio.timeout(WITHIN):
            for ask in operations(world, world.machine)[:2]:
                with pytest.raises(MEANING[trouble]) as told:
                    await ask()
        text = str(told.value)
        assert text.startswith(f"{world.provider.name}: ")
        assert len(text) > len(world.provider.name) + 5 and "\n" not in text
        assert not [secret for secret in world.secrets if secret in text]

    async def test_a_slow_answer_holds_nobody_else_up(self, world: ProviderWorld) -> None:
        if Trouble.SILENT not in world.troubles:
            pytest.skip("this provider always answers")
        world.begin(Trouble.SILENT)
        waiting = asyncio.ensure_future(world.provider.power(world.machine))
        turns = 0
        async with asyncio.timeout(WITHIN):
            while not waiting.done():
                await asyncio.sleep(0.01)
                turns += 1
        assert isinstance(waiting.exception(), Unreachable)
        assert turns > 5

    async def test_a_closed_provider_leaves_no_thread_behind(self, world: ProviderWorld) -> None:
        before = set(threading.enumerate())
        await world.provider.power(world.machine)
        await world.provider.close()
        after = set(threading.enumerate()) - before
        assert not [t.name for t in after if t.name.startswith(world.provider.name)]


async def state(world: ProviderWorld) -> PowerState:
    return (await world.provider.power(world.machine)).state


def operations(
    world: ProviderWorld, machine: ProviderMachine
) -> tuple[Callable[[], Awaitable[object]], ...]:
    """`power` first, then all that change something."""
    provider = world.provider
    return (
        lambda: provider.power(machine),
        lambda: provider.off(machine, "job.r0s0a1"),
        lambda: provider.on(machine, "job.r0s0a1"),
        lambda: provider.reset(machine, "job.r0s0a1"),
        lambda: provider.replace(machine, "job.r0s0a1"),
    )


def another(node: str) -> str:
    """A name of the same kind that is another Node's."""
    label, dot, domain = node.partition(".")
    part, rest = (label, f"{dot}{domain}") if any(c.isdigit() for c in label) else (node, "")
    digit = next(c for c in reversed(part) if c.isdigit())
    head, _, tail = part.rpartition(digit)
    return f"{head}{(int(digit) + 1) % 10}{tail}{rest}"
