"""Wakes the next in line: a slot that became free is filled at once, not when somebody looks again.

Whoever listens gets the holders that shall ask now. What is lost here, because nobody listens or
one listens slowly, is only speed: every holder also asks again at its own time.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime

from defender.control import RiskControl
from defender.queue.calling import call
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.clock import Clock, wait

MOST_UNREAD = 1024
"""Holders that one listener may be behind; more are dropped."""
AT_LEAST = 0.05
"""Seconds between two looks that time alone causes, whatever the clock does."""


class Waker:
    """A Part: `run` calls when something became free or is due. Whoever judges calls `call` first.

    ready    whether questions could be answered now; nobody is called in vain
    advance  lets time pass in `control`
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
        """Wake those for whom there is a slot. The control has advanced to `now`."""
        if not self._control.queue.news or not self._ready():
            return
        for holder in call(self._control, now):
            for listener in self._listeners:
                with contextlib.suppress(asyncio.QueueFull):
                    listener.put_nowait(holder)

    async def wakes(self) -> AsyncIterator[Holder]:
        """Holders that shall ask at once, for as long as one listens."""
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
        """Call for ever, until cancelled."""
        while True:
            self._news.clear()
            now = self._clock.now()
            self._advance(now)
            self.call(now)
            if self._control.queue.news and self._ready():
                await asyncio.sleep(0)  # there is more to do than fits one go
                continue
            at = self._control.queue.next_at()
            if at is None or not self._listeners:
                await self._news.wait()
            else:
                seconds = max((at - now).total_seconds(), AT_LEAST)
                await wait(self._clock, self._news, seconds)
