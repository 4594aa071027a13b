"""Follows jobs and permits, derives their events, and delivers them at least once.

It runs on the leader. A restart or a new leader derives the events of all present objects again,
with the same IDs, so the receiver stores each once. Lost are events of objects that were deleted
while no exporter ran, and holds that ended meanwhile.
"""

import logging
import random
from collections.abc import Iterable
from itertools import islice
from typing import Any

from prometheus_client import CollectorRegistry

from kubenode.api.v1alpha1 import Permit, RemedyOperationJob
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.rate import Backoff
from kubenode.runtime.stream.delivery import BatchSender, NotAccepted
from kubenode.runtime.stream.derivation import StreamIdentity, job_events, permit_events
from kubenode.runtime.stream.metrics import DELIVERED, DROPPED, REJECTED, StreamMetrics
from kubenode.runtime.stream.model import StreamEvent
from kubenode.runtime.stream.outbox import MOST_EVENTS, StreamOutbox

log = logging.getLogger(__name__)

EVERY_SECONDS = 1.0
OBJECTS_AT_ONCE = 100
"""Objects from which events are derived before other tasks run and a batch is sent."""
BATCH_EVENTS = 500
BACKOFF_SECONDS = 1.0, 60.0

Source = RemedyOperationJob | Permit


class StreamExporter:
    """A Part.

    jobs, permits, nodes: informers; their handlers are added when it runs
    most: events that may wait for the receiver
    """

    name = "stream"

    def __init__(
        self,
        jobs: Informer[RemedyOperationJob],
        permits: Informer[Permit],
        nodes: Informer[Node],
        sender: BatchSender,
        identity: StreamIdentity,
        clock: Clock,
        registry: CollectorRegistry,
        most: int = MOST_EVENTS,
    ) -> None:
        self._jobs, self._permits, self._nodes = jobs, permits, nodes
        self._sender, self._identity, self._clock = sender, identity, clock
        self._outbox = StreamOutbox(most)
        self._metrics = StreamMetrics(registry, lambda: len(self._outbox))
        self._changed: dict[str, Source] = {}
        self._gone: set[str] = set()
        self._retry_at, self._backoff = float("-inf"), Backoff(*BACKOFF_SECONDS, random.random)

    async def run(self) -> None:
        """Derive and deliver until cancelled, as soon as the properties of nodes are known."""
        await self._nodes.synced.wait()
        self._jobs.add_handler(self._noticed)
        self._permits.add_handler(self._noticed)
        try:
            while True:
                self.derive()
                await self.deliver()
                await self._clock.sleep(0 if self._changed else EVERY_SECONDS)
        finally:
            await self._sender.close()

    def derive(self) -> None:
        """Queue the events of some of the changed objects."""
        for uid in list(islice(self._changed, OBJECTS_AT_ONCE)):
            dropped = self._outbox.add(uid, self._events(self._changed.pop(uid)))
            self._metrics.events.labels(DROPPED).inc(dropped)
        for uid in self._gone - self._changed.keys():
            self._gone.discard(uid)
            self._outbox.forget(uid)

    async def deliver(self) -> None:
        """Send what waits, unless the last failure is too recent."""
        while len(self._outbox) and self._clock.monotonic() >= self._retry_at:
            await self._send(self._outbox.batch(BATCH_EVENTS))
        self._derive_again(self._outbox.take_incomplete())

    async def _send(self, batch: list[StreamEvent]) -> None:
        try:
            await self._sender.send(batch)
        except NotAccepted as error:
            self._metrics.failures.inc()
            self._failed(len(batch), error)
        else:
            self._backoff.reset()
            self._answered(len(batch), DELIVERED)

    def _failed(self, count: int, error: NotAccepted) -> None:
        if error.final:
            log.warning(
                "the receiver of the stream refused events",
                extra={"why": str(error), "events": count},
            )
            self._answered(count, REJECTED)
            return
        if not self._backoff.failures:
            log.warning(
                "the receiver of the stream accepts no events; they wait",
                extra={"why": str(error)},
            )
        self._retry_at = self._clock.monotonic() + self._backoff.next()

    def _answered(self, count: int, outcome: str) -> None:
        self._outbox.remove(count)
        self._metrics.events.labels(outcome).inc(count)

    def _events(self, source: Source) -> Iterable[StreamEvent]:
        node = self._nodes.get(source.spec.node_name)
        if isinstance(source, Permit):
            return permit_events(source, node, self._identity)
        return job_events(source, node, self._identity)

    def _noticed(self, key: str, old: Source | None, new: Source | None) -> None:
        """Take note of a change. A resync passes the same object twice."""
        if new is not None and new is not old:
            self._changed[new.metadata.uid or ""] = new
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._gone.add(old.metadata.uid or "")

    def _derive_again(self, uids: set[str]) -> None:
        if not uids:
            return
        caches: tuple[Iterable[Any], ...] = (
            self._jobs.cache.values(),
            self._permits.cache.values(),
        )
        for cache in caches:
            self._changed.update(
                (each.metadata.uid, each) for each in cache if each.metadata.uid in uids
            )
