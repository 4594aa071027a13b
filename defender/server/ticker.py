"""Periodic task that runs once a second, independent of requests."""

import logging
from collections.abc import Awaitable, Callable

from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import LeaseLost

log = logging.getLogger(__name__)

SECONDS = 1.0


class Ticking:
    """A part that calls `tick` once a second. A lost lease does not end it."""

    name = "defender ticking"

    def __init__(self, tick: Callable[[], Awaitable[None]], clock: Clock) -> None:
        self._tick, self._clock = tick, clock

    async def run(self) -> None:
        while True:
            try:
                await self._tick()
            except LeaseLost as error:
                log.info("the lease went to another", extra={"why": str(error)})
            await self._clock.sleep(SECONDS)
