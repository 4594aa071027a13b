"""Reads one source and returns when to read it again.

A failure is counted, logged once and followed by a longer pause; it does not affect other sources.
"""

import logging
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from kubenode.providers.errors import ProviderError
from kubenode.providers.events import EventList, EventListing, EventQueue, QueueMessage
from kubenode.providers.request_metrics import RESULTS
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.errors import KubeError
from remedy.hostdoctor.desk import NotReady
from remedy.hostdoctor.parsers import PARSERS
from remedy.hostdoctor.pollers.concern import Ours, concerning
from remedy.hostdoctor.pollers.metrics import NOT_STORED, OK, UNREADABLE, MessageFate, PollerMetrics
from remedy.hostdoctor.pollers.pace import after_failure, reason
from remedy.hostdoctor.report import ParseError, ReportedEvents

log = logging.getLogger(__name__)

AT_ONCE = timedelta(0)
SOON = timedelta(seconds=1)
EXPECTED = (ProviderError, ParseError, NotReady, KubeError)


class EventReceiver(Protocol):
    """Stores reported events. `take` raises NotReady or KubeError if it could not."""

    @property
    def ready(self) -> bool: ...

    async def take(self, reports: ReportedEvents) -> object: ...


class Poller:
    """Reads one source. `ours` reports whether an event is about a machine of this cluster."""

    def __init__(
        self,
        name: str,
        where: str,
        desk: EventReceiver,
        ours: Ours,
        clock: Clock,
        metrics: PollerMetrics,
    ) -> None:
        self.name, self.where = name, where
        self._desk, self._ours, self._clock, self._metrics = desk, ours, clock, metrics
        self._failures = 0

    async def once(self) -> timedelta:
        """Read the source; return how long to wait until the next time. Only bugs raise."""
        if not self._desk.ready:
            return SOON  # events cannot be matched with our nodes yet
        try:
            wait = await self._ask()
        except EXPECTED as error:
            return self._failed(error)
        if self._failures:
            log.info("a source of events answers again", extra={"source": self.where})
        self._failures = 0
        self._metrics.polls.labels(self.name, OK).inc()
        self._metrics.looked.labels(self.name).set(self._clock.now().timestamp())
        return wait

    async def _ask(self) -> timedelta:
        raise NotImplementedError

    @property
    def _every(self) -> timedelta:
        raise NotImplementedError

    def _about_us(self, reports: ReportedEvents) -> ReportedEvents:
        selection = concerning(reports, self._ours)
        self._metrics.foreign.labels(self.name).inc(selection.foreign)
        return selection.reports

    def _failed(self, error: Exception) -> timedelta:
        self._failures += 1
        self._metrics.polls.labels(self.name, result_of(error)).inc()
        extra = {"source": self.where, "error": f"{type(error).__name__}: {reason(error)}"}
        if self._failures == 1:
            log.warning("a source of events cannot be read", extra=extra)
        return after_failure(self._failures, self._every, error)


class ListPoller(Poller):
    """Reads a list of events."""

    def __init__(
        self,
        source: EventList,
        desk: EventReceiver,
        ours: Ours,
        clock: Clock,
        metrics: PollerMetrics,
    ) -> None:
        super().__init__(source.name, source.where, desk, ours, clock, metrics)
        self._source = source
        metrics.announce(source.name, queue=False)

    @property
    def _every(self) -> timedelta:
        return self._source.every

    async def _ask(self) -> timedelta:
        for listing in await self._source.list_events():
            reports = self._read(listing)
            await self._desk.take(self._about_us(reports))
        return self._every

    def _read(self, listing: EventListing) -> ReportedEvents:
        """Parse the list, under the scope of the source's own list. Raises ParseError."""
        reports = PARSERS[listing.transport](listing.payload, self._clock.now())
        return replace(reports, scope=listing.scope, complete=reports.complete and listing.whole)


class QueuePoller(Poller):
    """Reads a queue. A message is deleted when all of it is stored, or when it is not relevant. A
    message that cannot be parsed stays: the queue moves it to its dead-letter queue, where people
    find it.
    """

    def __init__(
        self,
        source: EventQueue,
        desk: EventReceiver,
        ours: Ours,
        clock: Clock,
        metrics: PollerMetrics,
    ) -> None:
        super().__init__(source.name, source.where, desk, ours, clock, metrics)
        self._source = source
        metrics.announce(source.name, queue=True)

    @property
    def _every(self) -> timedelta:
        return SOON

    async def _ask(self) -> timedelta:
        messages = await self._source.receive()
        done, failed = [], None
        for message in messages:
            try:
                fate = await self._handle(message)
            except (NotReady, KubeError) as error:
                fate, failed = MessageFate.NOT_STORED, error
            self._metrics.messages.labels(self.name, fate).inc()
            if fate in (MessageFate.STORED, MessageFate.IGNORED):
                done.append(message)
        await self._source.delete(done)
        if failed is not None:
            raise failed
        return AT_ONCE

    async def _handle(self, message: QueueMessage) -> MessageFate:
        try:
            reports = PARSERS[message.transport](message.body, self._clock.now())
        except ParseError as error:
            extra = {"source": self.where, "message_id": message.id, "error": str(error)}
            log.warning("a message of a queue cannot be read", extra=extra)
            return MessageFate.UNREADABLE
        reports = self._about_us(reports)
        await self._desk.take(reports)
        return MessageFate.STORED if reports.events else MessageFate.IGNORED


def result_of(error: Exception) -> str:
    match error:
        case ProviderError():
            return RESULTS[type(error)]
        case ParseError():
            return UNREADABLE
        case _:
            return NOT_STORED
