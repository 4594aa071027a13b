"""How long an informer waits after a failure, and what may end the wait early.

Delays grow with jitter, and start over only after a watch that lasted, because a server that ends
every watch at once seems to work each time. Retry-After overrides our own delays. The first 410
after such a watch waits only for `relist_spread`, which is 0 in operators: the remedy is a new
list. The end of an outage, noticed by any client, wakes informers that wait because of one.
"""

import asyncio
import logging

from kubenode.runtime.clock import Clock, wait
from kubenode.runtime.rate import Backoff, Spread

log = logging.getLogger(__name__)

WAKE_SPREAD = 0.5
WAKE_GAP = 1.0


class Recovery:
    """Backoff of one informer.

    low, high: seconds of the first and the longest delay
    relist_spread: seconds over which the first 410 of many clients is spread
    """

    def __init__(
        self,
        name: str,
        low: float,
        high: float,
        clock: Clock,
        spread: Spread,
        relist_spread: float = 0.0,
    ) -> None:
        self.woken = 0
        self._name = name
        self._clock, self._spread = clock, spread
        self._high = high
        self._relist_spread = relist_spread
        self._backoff = Backoff(low, high, spread)
        self._woken_at = float("-inf")
        self._gap = WAKE_GAP
        self._expired = 0  # 410s since the last watch that lasted
        self._trouble = ""

    def lasted(self) -> None:
        """Record that a watch lasted, so that the server works."""
        self._backoff.reset()
        self._expired = 0

    def went_well(self) -> None:
        """Record that a watch ended without an error, however soon."""
        self._gap = WAKE_GAP
        self._note("")

    async def pause(self) -> None:
        """Wait after a watch that ended too soon."""
        await self._clock.sleep(self._backoff.next())

    async def after(
        self,
        why: str,
        *,
        retry_after: float | None = None,
        expired: bool = False,
        outage_ended: asyncio.Event | None = None,
    ) -> None:
        """Wait as the failure demands.

        why: logged once per change
        retry_after: seconds that the server demands, None if it names none
        expired: whether it was a 410, or means the same
        outage_ended: event at the end of an outage, None if the failure does not look like one
        """
        delay = self._backoff.next()
        if expired:
            self._expired += 1
            if self._expired == 1:
                log.info("listing again", extra={"informer": self._name, "why": why})
                if self._relist_spread:
                    await self._clock.sleep(self._relist_spread * self._spread())
                return
        self._note(why)
        if retry_after is not None:
            await self._clock.sleep(retry_after * (1 + 0.1 * self._spread()))
        elif outage_ended is None or expired:
            await self._clock.sleep(delay)
        else:
            await self._await_recovery(delay, outage_ended)

    async def _await_recovery(self, delay: float, outage_ended: asyncio.Event) -> None:
        """Wait `delay` seconds, or until any client succeeds again.

        If only our own path fails, the successes of other clients must not make us flood it. So the
        least time between two early ends doubles until a watch of ours has gone well.
        """
        early = min(delay, max(0.0, self._woken_at + self._gap - self._clock.monotonic()))
        await self._clock.sleep(early)
        if await wait(self._clock, outage_ended, delay - early):
            self._woken_at = self._clock.monotonic()
            self._gap = min(2 * self._gap, self._high)
            self.woken += 1
            await self._clock.sleep(WAKE_SPREAD * self._spread())

    def _note(self, trouble: str) -> None:
        """Log a change of state, once."""
        if trouble == self._trouble:
            return
        extra = {"informer": self._name, "why": trouble or "the server answers again"}
        if trouble:
            log.warning("informer is in trouble", extra=extra)
        else:
            log.info("informer is well again", extra=extra)
        self._trouble = trouble
