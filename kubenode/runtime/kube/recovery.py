"""How long an informer waits after a failure, and what may cut the wait short.

Delays grow with jitter and start over only after a watch that lasted: a server which ends every
watch at once looks well each time. Retry-After wins over our own delays. The first 410 after a
good spell waits only for `relist_spread`, which operators do not have: listing again is all there
is to do about it. The end of an outage,
noticed by anybody, wakes those who wait because of one.
"""

import asyncio
import logging

from kubenode.runtime.clock import Clock, wait
from kubenode.runtime.rate import Backoff, Spread

log = logging.getLogger(__name__)

WAKE_SPREAD = 0.5
WAKE_GAP = 1.0


class Recovery:
    """low, high      seconds of the first and the longest delay
    relist_spread  seconds over which the first 410 of many clients is spread
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
        """A watch lasted: the server is well."""
        self._backoff.reset()
        self._expired = 0

    def went_well(self) -> None:
        """A watch ended without an error, however soon."""
        self._gap = WAKE_GAP
        self._note("")

    async def pause(self) -> None:
        """After a watch that ended too soon."""
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

        why           told to people, once per change
        expired       it was a 410 or its like
        outage_ended  the event that ends an outage, if the failure looks like one
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
        """Wait `delay` seconds, or until the outage is over for anybody.

        If our path alone fails while others work, their successes must not make us hammer it: the
        gap between two wake-ups doubles until a watch of ours has gone well.
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
