"""Keeps the garbage collector from walking the caches again and again while they fill.

A full collection looks at every object there is: with 10,000 nodes in memory it holds the event
loop for half a second, and growing caches are what it is started by. What is there once they are
full stays; the collector leaves it alone from then on, and reference counts free what is replaced.

What filling them took beside goes back to the kernel then: glibc by itself returns no more than
the free end of its heap (malloc_trim(3)). Pages of lists, some megabytes each, stay out of that
heap: once it has seen one freed it would take them in, and grow (M_MMAP_THRESHOLD in mallopt(3)).
"""

import ctypes
import gc
from collections.abc import Callable

from kubenode.runtime.clock import Clock
from kubenode.runtime.process import forever

LONGEST = 60.0
"""Seconds without any collection: caches that do not fill must not let memory grow."""
EVERY = 0.5
LARGE = 2**20
"""Bytes of a block that goes back to the kernel when it is freed."""
_M_MMAP_THRESHOLD = -3


class Filling:
    """A Part. `full` says whether the caches hold what they will hold."""

    name = "garbage collection"

    def __init__(self, full: Callable[[], bool], clock: Clock) -> None:
        self._full, self._clock = full, clock

    async def run(self) -> None:
        """Until cancelled; a process that leads only later is full a second time."""
        gc.disable()
        keep_apart()
        try:
            await self._wait(LONGEST)
        finally:
            gc.freeze()
            gc.enable()
        give_back()
        if not self._full():
            await self._wait(float("inf"))
            gc.freeze()
            give_back()
        await forever()

    async def _wait(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while not self._full() and self._clock.monotonic() < until:
            await self._clock.sleep(EVERY)


def give_back() -> None:
    """Return free memory to the kernel: some milliseconds."""
    _glibc("malloc_trim", 0)


def keep_apart() -> None:
    """Large blocks are mappings of their own, whatever was freed before."""
    _glibc("mallopt", _M_MMAP_THRESHOLD, LARGE)


def _glibc(name: str, *arguments: int) -> None:
    """Nothing where the C library does not have it."""
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*arguments)
