"""Keeps the garbage collector from walking the caches again and again while they fill.

A full collection looks at every object there is: with 10,000 nodes in memory it holds the event
loop for half a second, and growing caches are what it is started by. What is there once they are
full stays; the collector leaves it alone from then on, and reference counts free what is replaced.
"""

import gc
from collections.abc import Callable

from kubenode.runtime.clock import Clock
from kubenode.runtime.process import forever

LONGEST = 60.0
"""Seconds without any collection: caches that do not fill must not let memory grow."""
EVERY = 0.5


class Filling:
    """A Part. `full` says whether the caches hold what they will hold."""

    name = "garbage collection"

    def __init__(self, full: Callable[[], bool], clock: Clock) -> None:
        self._full, self._clock = full, clock

    async def run(self) -> None:
        """Until cancelled; a process that leads only later is full a second time."""
        gc.disable()
        try:
            await self._wait(LONGEST)
        finally:
            gc.freeze()
            gc.enable()
        if not self._full():
            await self._wait(float("inf"))
            gc.freeze()
        await forever()

    async def _wait(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while not self._full() and self._clock.monotonic() < until:
            await self._clock.sleep(EVERY)
