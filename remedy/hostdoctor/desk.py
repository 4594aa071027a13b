"""Stores external events as HostEvents, from webhooks and pollers.

    Reported ──► Node resolved ──► step (pure) ──► HostEvent at the API server

It works on every replica. `take` returns when everything is stored, so a caller that answers after
that has lost nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from kubenode.api.base import API_VERSION
from kubenode.api.v1alpha1.hostevent import HostEvent
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Invalid, KubeError
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.rate import TokenBucket
from kubenode.runtime.recorder import EventRecorder
from remedy.hostdoctor import notices
from remedy.hostdoctor.machines import MachineView
from remedy.hostdoctor.metrics import EventOutcome, HostDoctorMetrics
from remedy.hostdoctor.nodes import NodeIdentifier, NodeIndex, tokens_of
from remedy.hostdoctor.record import fitted, name_of, note_of
from remedy.hostdoctor.report import Reported, ReportedEvents
from remedy.hostdoctor.step import lacking, step
from remedy.hostdoctor.writer import HostEventWriter

log = logging.getLogger(__name__)

SCOPE_INDEX, HINT_INDEX = "scope", "hint"
MOST_WAITING = 20_000
"""Events of all deliveries together that are not stored yet; above this a delivery is rejected."""
NOTICES = (1.0, 50.0)
"""Rate of Kubernetes Events: per second, and burst. HostEvents hold everything anyway."""
WORKERS = 16
"""Workers of one delivery: a large one must not delay all others."""


class NotReady(Exception):
    """Nothing can be stored now; the sender may repeat the delivery soon."""


class TooManyWaiting(NotReady):
    """Too many events wait to be stored."""


@dataclass(slots=True)
class Taken:
    """Result of a delivery.

    changed: HostEvents that were written
    known: events without new content
    unresolved: of all these, those with a machine that is no Node
    refused: events that the API server rejects in any form, a sentence each
    """

    changed: int = 0
    known: int = 0
    unresolved: int = 0
    refused: tuple[str, ...] = ()


class HostEventService:
    """Stores events on HostEvents.

    nodes, events: informers that the caller runs
    recorder: emits Kubernetes Events about HostEvents that no rule can read; None: none are emitted
    """

    def __init__(
        self,
        kube: Kube,
        nodes: Informer[Node],
        events: Informer[HostEvent],
        clock: Clock,
        metrics: HostDoctorMetrics,
        recorder: EventRecorder | None = None,
    ) -> None:
        self._recorder, self._notices = recorder, TokenBucket(*NOTICES, clock)
        self.index = NodeIndex()
        self.writer = HostEventWriter(kube, events)
        self.events = events
        self._nodes, self._clock, self._metrics = nodes, clock, metrics
        self._waiting = 0
        self.on_token: Callable[[NodeIdentifier], None] = lambda token: None
        """Called when an identifier means another Node."""
        nodes.add_handler(lambda name, old, new: self._node_changed(old, new))
        events.add_index(SCOPE_INDEX, _scopes)
        events.add_index(HINT_INDEX, _hints)

    @property
    def ready(self) -> bool:
        """Whether the caches that resolving an event needs are filled."""
        return self._nodes.synced.is_set() and self.events.synced.is_set()

    async def take(self, reports: ReportedEvents) -> Taken:
        """Store all events. Raises NotReady or KubeError: then the sender must repeat them."""
        if not self.ready:
            raise NotReady("the caches of nodes and events are being filled")
        if self._waiting and self._waiting + len(reports.events) > MOST_WAITING:
            raise TooManyWaiting(f"{self._waiting} events wait to be stored")
        self._waiting += len(reports.events)
        self._metrics.waiting.set(self._waiting)
        try:
            return await self._store(reports)
        finally:
            self._waiting -= len(reports.events)
            self._metrics.waiting.set(self._waiting)

    async def _store(self, reports: ReportedEvents) -> Taken:
        self._metrics.ignored.inc(len(reports.ignored))
        taken, names, failed = Taken(), set[str](), list[KubeError]()
        now = self._clock.now()

        async def work(todo: Iterator[Reported]) -> None:
            for each in todo:
                event = fitted(each)
                name = name_of(event)
                names.add(name)
                try:
                    await self._store_event(name, event, reports, now, taken)
                except Invalid as error:
                    self._refuse(name, event, error, taken)
                except KubeError as error:
                    failed.append(error)

        todo = iter(reports.events)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(WORKERS, len(reports.events))):
                tasks.create_task(work(todo))
        if reports.complete and reports.scope and not failed:
            await self._end(reports.scope, names, now, taken)
        if failed:
            raise failed[0]
        return taken

    async def _store_event(
        self, name: str, event: Reported, reports: ReportedEvents, now: datetime, taken: Taken
    ) -> None:
        node = self.index.resolve(event.host)
        before = self.writer.known(name)
        after = await self.writer.change(
            name,
            lambda have: step(
                have, event, node, now, scope=reports.scope, complete=reports.complete
            ),
        )
        changed = after is not before
        taken.changed += changed
        taken.known += not changed
        taken.unresolved += not node.resolved
        outcome = EventOutcome.CHANGED if changed else EventOutcome.KNOWN
        self._metrics.events.labels(event.source, outcome).inc()
        if changed and after is not None and (notice := notices.of(before, after)) is not None:
            await self._tell(after, notice)

    async def _tell(self, event: HostEvent, notice: notices.WarningNotice) -> None:
        if self._recorder is None or not self._notices.allow():
            return
        about = {
            "kind": "HostEvent",
            "api_version": API_VERSION,
            "name": event.metadata.name,
            "uid": event.metadata.uid,
        }
        await self._recorder.emit(about, "Warning", notice.reason, notice.message)

    async def _end(self, scope: str, names: set[str], now: datetime, taken: Taken) -> None:
        """End the events that a complete list does not contain. Raises KubeError."""
        for event in self.events.by(SCOPE_INDEX, scope):
            if event.metadata.name in names:
                continue
            before = self.writer.known(event.metadata.name)
            after = await self.writer.change(
                event.metadata.name,
                lambda have: None if have is None else lacking(have, now, scope),
            )
            taken.changed += after is not before

    def _refuse(self, name: str, event: Reported, error: Invalid, taken: Taken) -> None:
        """Count and log an event that the API server rejects. Repeating it would fail again, so the
        other events do not wait for it.
        """
        self._metrics.events.labels(event.source, EventOutcome.REFUSED).inc()
        taken.refused += (f"{name}: {error.message[:200]}",)
        log.error("the API server refuses an event", extra={"host_event": name, "why": str(error)})

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        for token in self.index.changed(old, new):
            self.on_token(token)

    def machine_changed(self, old: MachineView | None, new: MachineView | None) -> None:
        """Handle a change of a Machine, which assigns addresses and a providerID to a Node."""
        for token in self.index.machine_changed(old, new):
            self.on_token(token)

    def hinted(self, token: NodeIdentifier) -> Sequence[str]:
        """Return the names of open events that may be about the Node with this identifier."""
        return [event.metadata.name for event in self.events.by(HINT_INDEX, _hint(token))]


def _scopes(event: HostEvent) -> tuple[str, ...]:
    """Index key: scopes of events that a complete list can end."""
    note, phase = note_of(event), event.status.phase
    return note.scopes if note.silent and phase is not None and phase.open else ()


def _hints(event: HostEvent) -> tuple[str, ...]:
    """Index key: identifiers of events that a new or deleted Node may change."""
    phase = event.status.phase
    if phase is not None and not phase.open:
        return ()
    note = note_of(event)
    host = note.host
    if host is None or (event.spec.node.name and not note.of_agents):
        return ()
    return tuple(_hint(token) for token in tokens_of(host))


def _hint(token: NodeIdentifier) -> str:
    return f"{token.kind}:{token.value}"
