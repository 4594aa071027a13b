"""Reconciles HostEvents with time and with new or deleted Nodes; runs on the leader."""

from datetime import timedelta

from kubenode.api.v1alpha1.hostevent import HostEvent, HostEventSource
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from remedy.hostdoctor.desk import HostEventService
from remedy.hostdoctor.lifecycle import alive, deletable, next_at, settled
from remedy.hostdoctor.metrics import HostDoctorMetrics
from remedy.hostdoctor.nodes import NO_HOST, NodeIdentifier, ResolutionReason
from remedy.hostdoctor.record import note_of
from remedy.remedier.hostevents import ALERT_NAME, WATCHDOG

WATCHDOG_INDEX = "watchdog"
SOONEST = timedelta(seconds=1)


class Sweep:
    """Reconciles HostEvents."""

    def __init__(self, desk: HostEventService, clock: Clock, fence: Fence) -> None:
        self._desk, self.clock, self._fence = desk, clock, fence
        desk.events.add_index(WATCHDOG_INDEX, watchdogs)

    def attach(self, queue: WorkQueue[str]) -> None:
        """Requeue events when an identifier of their machine resolves differently."""

        def requeue(token: NodeIdentifier) -> None:
            for name in self._desk.hinted(token):
                queue.add(name)

        self._desk.on_token = requeue

    async def reconcile(self, name: str) -> Result:
        event = self._desk.writer.known(name)
        if event is None:
            return DONE
        now = self.clock.now()
        if deletable(event, now):
            self._fence.check()
            await self._desk.writer.delete(event)
            return DONE
        index = self._desk.index
        lives = alive(self._desk.events.by(WATCHDOG_INDEX, WATCHDOG_INDEX), now)

        def change(have: HostEvent | None) -> HostEvent | None:
            if have is None:
                return None
            host = note_of(have).host
            node = index.resolve(host) if host is not None else NO_HOST
            return settled(have, node, index, now, alerts_alive=lives)

        if change(event) is not event:
            self._fence.check()
            event = await self._desk.writer.change(name, change)
        at = next_at(event, now) if event is not None else None
        return DONE if at is None else Result(max(at - now, SOONEST))


def watchdogs(event: HostEvent) -> tuple[str, ...]:
    """Index key of Watchdog alerts."""
    return (WATCHDOG_INDEX,) if event.spec.attributes.get(ALERT_NAME) == WATCHDOG else ()


class OpenEvents:
    """Counts open and unresolved events, and when the Watchdog was last seen, change by change."""

    def __init__(self, metrics: HostDoctorMetrics) -> None:
        self._metrics = metrics
        self._as: dict[str, tuple[str, str]] = {}
        self._watchdog_at = 0.0
        for source in HostEventSource:
            metrics.open.labels(source)
        for why in ResolutionReason:
            if why is not ResolutionReason.RESOLVED:
                metrics.unresolved.labels(why)

    def changed(self, name: str, old: HostEvent | None, new: HostEvent | None) -> None:
        if (before := self._as.pop(name, None)) is not None:
            self._count(before, -1)
        if new is None or new.status.phase is None or not new.status.phase.open:
            return
        if watchdogs(new) and new.status.last_seen is not None:
            self._watchdog_at = max(self._watchdog_at, new.status.last_seen.timestamp())
            self._metrics.watchdog.set(self._watchdog_at)
        resolved = next((c for c in new.status.conditions if c.type == "Resolved"), None)
        known = (
            resolved is not None
            and not new.spec.node.name
            and resolved.reason in set(ResolutionReason)
        )
        now = (str(new.spec.source), resolved.reason if known and resolved else "")
        self._as[name] = now
        self._count(now, 1)

    def _count(self, of: tuple[str, str], by: int) -> None:
        self._metrics.open.labels(of[0]).inc(by)
        if of[1]:
            self._metrics.unresolved.labels(of[1]).inc(by)
