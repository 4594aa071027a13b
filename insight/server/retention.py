"""Rolls up days, deletes expired events, and reports whether the database answers."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

from insight.server.metrics import InsightMetrics
from insight.store.database import StoreUnavailable
from insight.store.event_store import EventStore
from kubenode.runtime.clock import Clock

A = TypeVar("A")
R = TypeVar("R")
log = logging.getLogger(__name__)

CHECK_SECONDS = 10.0
DELETE_SECONDS = 3600.0


class RetentionPart:
    """A Part. It shares the executor of writes, so that SQLite has one writer."""

    name = "retention"

    def __init__(
        self, store: EventStore, clock: Clock, metrics: InsightMetrics, writing: Executor
    ) -> None:
        self._store, self._clock, self._metrics, self._writing = store, clock, metrics, writing
        self._trouble = "the database has not answered yet"

    async def run(self) -> None:
        delete_at = self._clock.monotonic()
        while True:
            await self._check()
            await self._roll_up()
            if not self._trouble and self._clock.monotonic() >= delete_at:
                delete_at = self._clock.monotonic() + DELETE_SECONDS
                await self._delete()
            await self._clock.sleep(CHECK_SECONDS)

    def ready(self) -> str:
        """Return why the store cannot be used, "" if it can."""
        return self._trouble

    async def _check(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._writing, self._store.check)
        except StoreUnavailable as error:
            if not self._trouble:
                log.warning("the database does not answer", extra={"why": str(error)})
            self._trouble = f"the database does not answer: {error}"
        else:
            self._trouble = ""

    async def _roll_up(self) -> None:
        """Roll up the pending days, and then weeks. Loads run between two of them."""
        if self._trouble:
            return
        rollups, weeks, now = self._store.rollups, self._store.weeks, self._clock.now()
        try:
            for day in await self._write(rollups.list_pending, now):
                await self._write(rollups.roll_up, day)
            for span in await self._write(weeks.list_missing, now):
                await self._write(weeks.roll_up, span)
        except StoreUnavailable as error:
            log.warning("days are not rolled up", extra={"why": str(error)})

    async def _write(self, act: Callable[[A], R], argument: A) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._writing, act, argument)

    async def _delete(self) -> None:
        delete = partial(self._store.delete_expired, self._clock.now())
        try:
            count = await asyncio.get_running_loop().run_in_executor(self._writing, delete)
        except StoreUnavailable as error:
            log.warning("expired events are not deleted", extra={"why": str(error)})
            return
        self._metrics.deleted.inc(count)
        if count:
            log.info("expired events are deleted", extra={"events": count})
