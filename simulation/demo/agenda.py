"""Scheduled actions of the simulated fleet: one heap instead of ten thousand sleeping tasks.

An action is a coroutine function. If the API server refuses it for now (overload, a conflict), it
is repeated a little later, at most ATTEMPTS times. If its object is gone, it is dropped. If the
server is unreachable, it is repeated without a limit, since a detector that gave up would report
its last state forever.
"""

import asyncio
import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable

from kubenode.runtime.clock import Clock, wait
from kubenode.runtime.kube.errors import KubeError, NotFound, ServerUnreachable

log = logging.getLogger(__name__)

AGAIN = 0.5
ATTEMPTS = 20

Do = Callable[[], Awaitable[None]]


class Agenda:
    """A Part that runs scheduled actions. `soon` and `every` may be called at any time.

    width: actions that run at once; the others wait in the order in which they are due.
    """

    def __init__(self, name: str, clock: Clock, width: int = 16) -> None:
        self.name = name
        self._clock = clock
        self._width = width
        self._heap: list[tuple[float, int, int, Do]] = []
        self._number = itertools.count()
        self._changed = asyncio.Event()
        self.behind = 0.0
        """The largest delay of an action in seconds: how far the machine fell behind."""

    def soon(self, seconds: float, do: Do) -> None:
        self._push(self._clock.monotonic() + seconds, 1, do)

    def every(self, seconds: float, do: Do, *, first: float) -> None:
        """Run an action periodically.

        Each run is scheduled independently of the action itself. Otherwise each repetition after a
        refusal would start another period.
        """

        async def again() -> None:
            self.soon(seconds, again)
            self.soon(0, do)

        self.soon(first, again)

    def _push(self, when: float, attempt: int, do: Do) -> None:
        heapq.heappush(self._heap, (when, next(self._number), attempt, do))
        self._changed.set()

    async def run(self) -> None:
        room, began = asyncio.Semaphore(self._width), self._clock.monotonic()
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._changed.clear()
                delay = self._heap[0][0] - self._clock.monotonic() if self._heap else None
                if delay is None or delay > 0:
                    await wait(self._clock, self._changed, delay)
                    continue
                await room.acquire()
                due, _, attempt, do = heapq.heappop(self._heap)
                self.behind = max(self.behind, self._clock.monotonic() - max(due, began))
                task = tasks.create_task(self._run_attempt(do, attempt))
                task.add_done_callback(lambda _: room.release())

    async def _run_attempt(self, do: Do, attempt: int) -> None:
        try:
            await do()
        except NotFound:
            return
        except KubeError as error:
            if attempt >= ATTEMPTS and not isinstance(error, ServerUnreachable):
                log.warning("gave up", extra={"agenda": self.name, "error": str(error)})
                return
            self._push(self._clock.monotonic() + AGAIN, attempt + 1, do)
