"""A Kube Defender to play with, whatever it is kept in: alone in memory, or three on a real Redis.

Both are asked through the service's port. The record is an API in memory whose writes fail on
command; what kills a Defender forgets all that it knew.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Protocol

from support.clock import FakeClock
from support.defender_world import MemoryApi, World
from support.redis_world import SharedWorld

from defender.client import DefenderUnreachable
from defender.replicas.charge.step import AnswerSource
from defender.service import Defender
from kubenode.api.v1alpha1 import DefenderPolicy


class Player(Protocol):
    @property
    def world(self) -> World: ...

    async def begin(self) -> None: ...
    def one(self, which: int) -> Defender:
        """One that may be asked; which one does not matter."""
        ...

    async def kill(self, which: int) -> None:
        """One is gone with all it knew, and another one takes its place."""
        ...

    async def passes(self, time: timedelta) -> None: ...
    async def keep(self) -> None:
        """A round of housekeeping, and of looking around."""
        ...

    async def close(self) -> None: ...


class Alone:
    def __init__(self, policy: DefenderPolicy) -> None:
        self.world = World(0, policy)

    async def begin(self) -> None:
        await self.world.start()
        self._loaded()

    def _loaded(self) -> None:
        self.world.defender.control.breakers.loaded = True
        self.world.defender.control.queue.listen(True)

    def one(self, which: int) -> Defender:
        return self.world.defender

    async def kill(self, which: int) -> None:
        down, self.world.api.down = self.world.api.down, False
        await self.world.restart(behind=bool(which % 2))
        self.world.api.down = down
        self._loaded()

    async def passes(self, time: timedelta) -> None:
        self.world.clock.step(time)
        self.world.current()

    async def keep(self) -> None:
        await quietly(self.world.defender.keeper.round())
        await quietly(self.world.defender.revoking.round())

    async def close(self) -> None:
        return


class OnRedis:
    """Three replicas; which one leads changes with every kill of the leader."""

    def __init__(self, policy: DefenderPolicy, url: str) -> None:
        self.world = self.shared = SharedWorld(url, 3, 0, [policy])
        self._leader = 0

    async def begin(self) -> None:
        await self.shared.until(AnswerSource.REDIS)
        self._loaded()

    def _loaded(self) -> None:
        for defender in self.shared.defenders:
            defender.control.breakers.loaded = True
            defender.control.queue.listen(True)

    def one(self, which: int) -> Defender:
        return self.shared.defenders[which % 3]

    async def kill(self, which: int) -> None:
        self.shared.replica(which % 3)
        if which % 3 == self._leader:
            self._leader = (self._leader + 1) % 3
        self.shared.leads(self._leader)
        self._loaded()
        await self.shared.rounds(1.0)

    async def passes(self, time: timedelta) -> None:
        self.shared.step(seconds=time.total_seconds())
        await self.shared.rounds(1.0)

    async def keep(self) -> None:
        leader = self.shared.defenders[self._leader]
        await self.shared.rounds()
        await quietly(leader._keep())
        await quietly(leader.revoking.round())

    async def close(self) -> None:
        await self.shared.close()


async def quietly(work: Coroutine[Any, Any, Any]) -> Any:
    """What it gives; None if it was cut off or could not be done."""
    with contextlib.suppress(asyncio.CancelledError, DefenderUnreachable):
        return await work


def lever(player: Player) -> tuple[MemoryApi, FakeClock]:
    return player.world.api, player.world.clock
