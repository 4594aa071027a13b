"""Schedules the pollers: one APScheduler job for each source, on the leader only.

A job plans its next run when it has ended, so that no source is ever read twice at once.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from datetime import UTC, timedelta
from functools import partial

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.date import DateTrigger

from kubenode.runtime.clock import Clock
from remedy.hostdoctor.pollers.poller import Poller

JITTER = 0.1
"""Random part added to a wait, at most: operators of many clusters must not read at the same
moment.
"""


class Pollers:
    """A Part that runs pollers. `chance` returns a number between 0 and 1."""

    name = "event pollers"

    def __init__(
        self,
        pollers: Sequence[Poller],
        clock: Clock,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._pollers, self._clock, self._chance = pollers, clock, chance
        self._scheduler: AsyncIOScheduler | None = None
        self._mistakes: list[Exception] = []
        self._mistaken = asyncio.Event()

    async def run(self) -> None:
        """Run until cancelled. Raises what a poller raises, since a source that is silently not
        read is worse.
        """
        logging.getLogger("apscheduler").setLevel(logging.WARNING)
        self._scheduler = AsyncIOScheduler(timezone=UTC)
        self._scheduler.start()
        try:
            for number, poller in enumerate(self._pollers):
                self._plan(number, poller, timedelta(0))
            await self._mistaken.wait()
            raise self._mistakes[0]
        finally:
            self._scheduler.shutdown(wait=False)
            self._scheduler = None

    async def _due(self, number: int, poller: Poller) -> None:
        try:
            self._plan(number, poller, await poller.once())
        except Exception as error:
            self._mistakes.append(error)
            self._mistaken.set()
            raise

    def _plan(self, number: int, poller: Poller, wait: timedelta) -> None:
        if self._scheduler is None:
            return
        self._scheduler.add_job(
            partial(self._due, number, poller),
            DateTrigger(self._clock.now() + wait * (1 + JITTER * self._chance())),
            id=f"{number} {poller.name}",
            replace_existing=True,
            misfire_grace_time=None,
            max_instances=2,  # the job that plans this one still counts as running
        )
