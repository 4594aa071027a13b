"""Wake holders that are next in line, so that a free slot is used at once.

A listener receives the holders that should ask now. A lost wake-up, because nobody listens or a
listener is slow, only costs time: every holder also asks again at its own time.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime

from defender.decision.control import RiskControl
from defender.decision.queue.selection import call
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.clock import Clock, wait

MOST_UNREAD = 1024
"""Greatest number of holders that wait for one listener; more are dropped."""
AT_LEAST = 0.05
"""Least seconds between two rounds that time causes, whatever the clock does."""


class Waker:
    """A part. `run` wakes holders when a slot is freed or something is due. Judging calls `call`
    first.

    ready: returns whether requests can be answered now; if not, nobody is woken.
    advance: lets time pass in `control`.
    """

    name = "waker"

    def __init__(
        self,
        control: RiskControl,
        clock: Clock,
        ready: Callable[[], bool] = lambda: True,
        advance: Callable[[datetime], object] | None = None,
    ) -> None:
        self._control, self._clock, self._ready = control, clock, ready
        self._advance = advance or control.advance
        self._news = asyncio.Event()
        self._listeners: set[asyncio.Queue[Holder]] = set()
        control.queue.news.on_news = self._news.set

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def call(self, now: datetime) -> None:
        """Wake the holders for which there is a slot. The control has advanced to `now`."""
        if not self._control.queue.news or not self._ready():
            return
        for holder in call(self._control, now):
            for listener in self._listeners:
                with contextlib.suppress(asyncio.QueueFull):
                    listener.put_nowait(holder)

    async def wakes(self) -> AsyncIterator[Holder]:
        """Yield holders that should ask at once, while the caller iterates."""
        mine: asyncio.Queue[Holder] = asyncio.Queue(MOST_UNREAD)
        self._listeners.add(mine)
        self._control.queue.listen(True)
        try:
            while True:
                yield await mine.get()
        finally:
            self._listeners.discard(mine)
            if not self._listeners:
                self._control.queue.listen(False)

    async def run(self) -> None:
        """Wake holders until cancelled."""
        while True:
            self._news.clear()
            now = self._clock.now()
            self._advance(now)
            self.call(now)
            if self._control.queue.news and self._ready():
                await asyncio.sleep(0)  # one round does not handle everything; yield to other tasks
                continue
            at = self._control.queue.next_at()
            if at is None or not self._listeners:
                await self._news.wait()
            else:
                seconds = max((at - now).total_seconds(), AT_LEAST)
                await wait(self._clock, self._news, seconds)
