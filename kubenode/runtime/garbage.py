"""Keeps the garbage collector from scanning the caches again and again while they fill.

A full collection visits every object. With 10,000 nodes in memory it blocks the event loop for half
a second, and growing caches are what triggers it. The objects that exist once the caches are full
stay for long: the collector ignores them from then on, and reference counts free replaced ones.

Afterwards the memory that the filling needed besides is returned to the kernel. By itself glibc
returns no more than the free end of its heap (malloc_trim(3)). Pages of lists, of some megabytes
each, must stay outside of that heap: once glibc has seen such a block freed, it would place the
next ones in the heap and let it grow (M_MMAP_THRESHOLD in mallopt(3)).
"""

import ctypes
import gc
from collections.abc import Callable

from kubenode.runtime.clock import Clock
from kubenode.runtime.process import forever

LONGEST = 60.0
"""Seconds without any collection: if the caches do not fill, memory must not grow without bound."""
EVERY = 0.5
LARGE = 2**20
"""Size in bytes from which a freed block goes back to the kernel."""
_M_MMAP_THRESHOLD = -3


class Filling:
    """A Part. `full` returns whether the caches have been filled."""

    name = "garbage collection"

    def __init__(self, full: Callable[[], bool], clock: Clock) -> None:
        self._full, self._clock = full, clock

    async def run(self) -> None:
        """Freeze the caches once they are full, or after LONGEST; then run until cancelled.

        In a process that becomes leader later they may be full only then: freeze them again.
        """
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
    """Return free memory to the kernel, which takes some milliseconds."""
    _glibc("malloc_trim", 0)


def keep_apart() -> None:
    """Make large blocks mappings of their own, whatever was freed before."""
    _glibc("mallopt", _M_MMAP_THRESHOLD, LARGE)


def _glibc(name: str, *arguments: int) -> None:
    """Call a function of the C library; do nothing if it has none of that name."""
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*arguments)
