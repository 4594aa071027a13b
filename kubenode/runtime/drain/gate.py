"""Limits the requests to end pods, over all nodes, so that many drains do not flood the API server.

A 429 without a budget behind it means that the server is overloaded. All requests then pause for as
long as it says, and longer each time it says so again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from kubenode.runtime.clock import Clock

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 24
"""Requests in progress for all nodes together; at most AT_ONCE_OF_NODE of them for one node."""
AT_ONCE_OF_NODE = 8
LEAST, MOST = timedelta(seconds=1), timedelta(seconds=30)


class DrainGate:
    def __init__(self, clock: Clock, at_once: int = AT_ONCE) -> None:
        self._clock = clock
        self._slots = asyncio.Semaphore(at_once)
        self._calm_until: datetime | None = None
        self._pause = LEAST

    @property
    def calm(self) -> datetime | None:
        """Return until when no request may be sent; None if requests may be sent now."""
        until = self._calm_until
        return until if until is not None and until > self._clock.now() else None

    def throttled(self, after: float | None) -> None:
        """Pause all requests. `after` is the seconds that the server demands, None without any."""
        requested = timedelta(seconds=after or 0.0)
        if self.calm is None:
            self._pause = min(self._pause * 2, MOST)
        self._calm_until = self._clock.now() + max(requested, self._pause)

    def served(self) -> None:
        self._pause = LEAST

    async def each(self, items: Sequence[T], ask: Callable[[T], Awaitable[R]]) -> list[R]:
        """Call `ask` for each of a node's pods, in their order, a few at a time."""
        own = asyncio.Semaphore(AT_ONCE_OF_NODE)

        async def run_limited(item: T) -> R:
            async with own, self._slots:
                return await ask(item)

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(run_limited(item)) for item in items]
        return [task.result() for task in running]
