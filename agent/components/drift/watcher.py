"""Triggers drift checks: soon after a watched path changed, and for everything periodically."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from agent.components.ports import ObjectWatch
from kubenode.runtime.clock import Clock
from kubenode.runtime.rate import Spread

SCAN_SECONDS = 600.0
GATHER_SECONDS = 1.0
"""An editor writes, renames and sets modes: one check covers all of it."""

News = Callable[[set[str]], Awaitable[None]]
"""Receives the changed paths; an empty set means to check everything."""


class DriftWatcher:
    """Part: watches for drift. One call of `news` ends before the next begins."""

    name = "drift"

    def __init__(
        self, watch: ObjectWatch, news: News, clock: Clock, *, spread: Spread = random.random
    ) -> None:
        self._watch, self._news, self._clock = watch, news, clock
        self._spread = spread
        self._at_work = asyncio.Lock()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._scan())
            while True:
                changed = await self._watch.changed()
                await self._clock.sleep(GATHER_SECONDS)
                await self._tell(changed)

    async def _scan(self) -> None:
        """Check everything periodically. The random start spreads the load over hosts."""
        await self._clock.sleep(SCAN_SECONDS * self._spread())
        while True:
            await self._tell(set())
            await self._clock.sleep(SCAN_SECONDS)

    async def _tell(self, changed: set[str]) -> None:
        async with self._at_work:
            await self._news(changed)
