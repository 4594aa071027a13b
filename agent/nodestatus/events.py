"""Publishes the tally as Events: each at once, then its count, within a rate limit for all."""

import asyncio
import logging
import random

from agent.nodestatus import form
from agent.nodestatus.conditions import RETRY_HIGH, RETRY_LOW, NodeStatusWriter
from agent.nodestatus.tally import EventEntry, EventTally
from kubenode.runtime.clock import Clock, wait
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, Invalid, KubeError, NotFound
from kubenode.runtime.rate import Backoff, Spread, TokenBucket

log = logging.getLogger(__name__)

RATE, BURST = 1 / 20, 25.0
COUNT_SECONDS = 5.0
"""Least time between two writes of one Event's count."""
SELF = "kubenode-agent"


class EventTeller:
    """Part: publishes Events. Call `notify` after each change of the tally."""

    name = "events"

    def __init__(
        self,
        tally: EventTally,
        kube: Kube,
        status: NodeStatusWriter,
        agent: str,
        clock: Clock,
        *,
        rate: float = RATE,
        burst: float = BURST,
        spread: Spread = random.random,
    ) -> None:
        self._tally, self._kube, self._status = tally, kube, status
        self._agent, self._clock = agent, clock
        self._bucket = TokenBucket(rate, burst, clock)
        self._backoff = Backoff(RETRY_LOW, RETRY_HIGH, spread)
        self._woken = asyncio.Event()
        self._published_at: dict[str, float] = {}
        self._trouble = ""

    def notify(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        while True:
            entry, seconds = self._next()
            if entry is None:
                self._woken.clear()
                await wait(self._clock, self._woken, seconds)
                continue
            await self._bucket.take()
            if not await self.tell(entry):
                await self._clock.sleep(self._backoff.next())

    def _next(self) -> tuple[EventEntry | None, float | None]:
        """Return the entry to publish now, or the seconds until one is due (None: none waits)."""
        now, soonest = self._clock.monotonic(), None
        self._published_at = {
            k: at for k, at in self._published_at.items() if now - at < COUNT_SECONDS
        }
        for entry in self._tally.waiting():
            if (at := self._published_at.get(entry.name)) is None:
                return entry, None
            remaining = at + COUNT_SECONDS - now
            soonest = remaining if soonest is None else min(soonest, remaining)
        return None, soonest

    async def tell(self, entry: EventEntry) -> bool:
        """Publish an entry; return True if it succeeded or can never succeed."""
        count = entry.count
        try:
            if not self._status.uid:
                await self._status.patch({})
            await self._write(entry)
        except Invalid as error:
            log.error("the API server refuses an event for ever", extra={"error": str(error)})
        except KubeError as error:
            self._note(str(error))
            return False
        self._tally.mark_published(entry, count)
        self._published_at[entry.name] = self._clock.monotonic()
        self._tally.own_up(SELF)
        self._backoff.reset()
        self._note("")
        return True

    async def _write(self, entry: EventEntry) -> None:
        body = form.event(entry, self._status.name, self._agent, self._status.uid)
        known = paths.event(form.NAMESPACE, form.event_name(entry, self._agent))
        if not entry.told:
            try:
                await self._kube.create(paths.events(form.NAMESPACE), body)
                return
            except AlreadyExists:
                pass  # created by an earlier request whose response was lost
        try:
            await self._kube.patch(known, form.counted(entry))
        except NotFound:  # the API server drops Events after an hour
            await self._kube.create(paths.events(form.NAMESPACE), body)

    def _note(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.warning("events wait for the API server", extra={"error": trouble})
        self._trouble = trouble
