"""Inputs from outside the cluster: HostEvents, alerts, and answers to probes.

The module builds the objects that Host Doctor and agents would write, and passes them to the
FactStore.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from kubenode.api.meta import ObjectMeta
from kubenode.api.v1alpha1 import Severity
from kubenode.api.v1alpha1.hostevent import (
    HostEvent,
    HostEventClass,
    HostEventNode,
    HostEventPhase,
    HostEventSource,
    HostEventSpec,
    HostEventStatus,
)
from kubenode.api.v1alpha1.hostprobe import HostProbe
from kubenode.api.v1alpha1.leaves import AlertLeaf, HostEventLeaf
from kubenode.runtime.kube.objects import Node
from remedy.hostdoctor.report import ReportedEvents
from remedy.hostprobes.schedule import RETENTION, body, is_open, plan
from remedy.job.model import Job
from remedy.plannedevents.access import observe_event
from remedy.plannedevents.observation import EventObservation
from remedy.remedier.facts import FactStore
from remedy.remedier.hostevents import ALERT_NAME, WATCHDOG
from simulation.replay import signals
from simulation.replay.clock import SetClock
from simulation.replay.deliveries import Change, Deliveries
from simulation.replay.moments import Moment, instant

ANSWER_AFTER = timedelta(seconds=1)
SIGN_OF_LIFE = timedelta(seconds=30)
Later = Callable[[datetime, Callable[[], None]], None]
Fields = Mapping[str, bool | int | float | str]


@dataclass(slots=True)
class Questions:
    """The probes of one node.

    kinds: names of the probes in the order in which they were sent.
    answers: probe name to the fields of its answer.
    probes: HostProbes by name.
    """

    kinds: list[str] = field(default_factory=list)
    answers: dict[str, Fields] = field(default_factory=dict)
    probes: dict[str, HostProbe] = field(default_factory=dict)


class ReplayHostDoctor:
    """Writes HostEvents and alerts.

    alive: whether the source of alerts sends its heartbeat.
    deliveries: deliveries in the format of their sources.
    """

    def __init__(
        self, clock: SetClock, facts: FactStore, nodes: Mapping[str, Node], start: datetime
    ) -> None:
        self._clock, self._facts, self._start = clock, facts, start
        self._events: dict[str, HostEvent] = {}
        self.deliveries = Deliveries(nodes, self._events)
        self._of_node: dict[str, set[str]] = {}
        self.alive = True
        self._watchdog(start)

    def event(self, node: str, uid: str, signal: signals.SimulatedHostEvent) -> Collection[str]:
        """Write a HostEvent. Return the nodes that must be evaluated again."""
        now = self._clock.now()
        external = signal.external_id or f"{signal.source}-{signal.class_}".lower()
        name = _name(node, signal.source, external)
        old = self._events.get(name)
        first = old.status.first_seen if old is not None else None
        spec = HostEventSpec(
            source=signal.source,
            external_id=external,
            class_=signal.class_,
            severity=signal.severity,
            node=HostEventNode(name=node, uid=uid),
            not_before=self._at(signal.not_before),
            not_after=self._at(signal.not_after),
            attributes=signal.attributes,
            message=signal.message,
        )
        status = HostEventStatus(
            phase=signal.phase,
            first_seen=self._at(signal.since) or first or now,
            last_seen=self._at(signal.last) or now,
            seen=signal.seen or (old.status.seen if old is not None else 0) + 1,
        )
        return self._put(name, HostEvent(metadata=ObjectMeta(name=name), spec=spec, status=status))

    def alert(self, node: str, uid: str, signal: signals.Alert) -> Collection[str]:
        labels = dict(sorted(signal.labels.items()))
        firing = signal.status == "firing"
        made = signals.SimulatedHostEvent(
            class_=HostEventClass.ALERT,
            source=HostEventSource.ALERTMANAGER,
            phase=HostEventPhase.ACTIVE if firing else HostEventPhase.COMPLETED,
            external_id=f"{signal.name}{labels}"[:512],
            attributes={**labels, ALERT_NAME: signal.name},
            since=signal.since,
        )
        return self.event(node, uid, made)

    def deliver(self, node: str, signal: signals.Delivery) -> Collection[str]:
        """Process a delivery. Return the nodes that must be evaluated again.

        node: the node whose agent reports it, or "".
        """
        return self._write(self.deliveries.take(node, signal, self._clock.now()))

    def known(self, node: str, transport: str, events: ReportedEvents) -> Collection[str]:
        """Process events as if they had been delivered and parsed."""
        return self._write(self.deliveries.hear(node, transport, events, self._clock.now()))

    def _write(self, changes: Iterable[Change]) -> Collection[str]:
        woken: set[str] = set()
        for old, new in changes:
            woken.update(self._put(new.metadata.name, new))
            woken.update(e.spec.node.name for e in (old, new) if e is not None and e.spec.node.name)
        return woken

    def source_of_alerts(self, state: str) -> Collection[str]:
        self.live()
        self.alive = state == "alive"
        return self._watchdog(self._clock.now()) if state != "silent" else ()

    def live(self) -> None:
        """Write the heartbeats of the source of alerts up to now; they cause no evaluation."""
        now = self._clock.now()
        if self.alive and now >= self._watchdog_at + SIGN_OF_LIFE:
            self._watchdog(now)

    def end(self, node: str, leaf: HostEventLeaf | AlertLeaf) -> Collection[str]:
        """End the events that a leaf reads of the node.

        Return the nodes that must be evaluated again.
        """
        woken: set[str] = set()
        for name in sorted(self._of_node.get(node, ())):
            event = self._events[name]
            alert = event.spec.class_ is HostEventClass.ALERT
            if alert is not isinstance(leaf, AlertLeaf) or not _open(event):
                continue
            status = event.status.model_copy(
                update={"phase": HostEventPhase.COMPLETED, "last_seen": self._clock.now()}
            )
            woken.update(self._put(name, event.model_copy(update={"status": status})))
        return woken

    def planned(self, job: Job) -> tuple[EventObservation, ...]:
        """Return the current state of the events that a job was made for."""
        now = self._clock.now()
        return tuple(observe_event(n, self._events.get(n), job, now) for n in job.spec.host_events)

    def _put(self, name: str, event: HostEvent) -> Collection[str]:
        old, self._events[name] = self._events.get(name), event
        self._of_node.setdefault(event.spec.node.name, set()).add(name)
        return self._facts.host_event_changed(old, event)

    def _watchdog(self, now: datetime) -> Collection[str]:
        self._watchdog_at = now
        spec = HostEventSpec(
            source=HostEventSource.ALERTMANAGER,
            external_id=WATCHDOG,
            class_=HostEventClass.ALERT,
            severity=Severity.INFO,
            node=HostEventNode(),
            attributes={ALERT_NAME: WATCHDOG},
        )
        status = HostEventStatus(phase=HostEventPhase.ACTIVE, first_seen=self._start, last_seen=now)
        name = WATCHDOG.lower()
        old = self._events.get(name)
        event = HostEvent(metadata=ObjectMeta(name=name), spec=spec, status=status)
        self._events[name] = event
        return self._facts.host_event_changed(old, event)

    def _at(self, moment: Moment | None) -> datetime | None:
        return None if moment is None else instant(moment, self._start)


class Hosts:
    """Answers HostProbes as the timeline says, one second after they are sent."""

    def __init__(
        self, clock: SetClock, facts: FactStore, later: Later, answered: Callable[[str], None]
    ) -> None:
        self._clock, self._facts, self._later, self._answered = clock, facts, later, answered
        self._of: dict[str, Questions] = {}
        self._open: dict[str, datetime] = {}

    def of(self, node: str) -> Questions:
        return self._of.setdefault(node, Questions())

    def forget(self, node: str) -> None:
        for probe in self._of.pop(node, Questions()).probes.values():
            self._facts.probe_changed(probe, None)

    def answer(self, node: str, answers: Mapping[str, Fields | None]) -> None:
        """Set the answers from now on, by probe name; None stops the answers of that probe."""
        mine = self.of(node).answers
        for kind, fields in answers.items():
            if fields is None:
                mine.pop(kind, None)
            else:
                mine[kind] = fields

    def ask(self, node: str, agent: str, names: Collection[str]) -> datetime | None:
        """Send the probes that are due. Return when to call again, None if not at all.

        names: the wanted facts, each a `probe.field`.
        """
        if not names:
            return None
        now, mine = self._clock.now(), self.of(node)
        self._clear(mine, now)
        schedule = plan(names, list(mine.probes.values()), len(self._open), now)
        for kind in schedule.ask:
            probe = HostProbe.model_validate(body(node, agent, kind, now))
            probe.metadata.creation_timestamp = now
            name = probe.metadata.name
            mine.probes[name] = probe
            mine.kinds.append(kind)
            self._open[name] = probe.spec.expires_at
            self._facts.probe_changed(None, probe)
            self._later(now + ANSWER_AFTER, partial(self._reply, node, name))
        return schedule.at

    def _reply(self, node: str, name: str) -> None:
        mine = self.of(node)
        probe = mine.probes.get(name)
        fields = mine.answers.get(str(probe.spec.name)) if probe is not None else None
        if probe is None or fields is None:
            return
        status = probe.status.model_copy(
            update={"answer": dict(fields), "answered_at": self._clock.now()}
        )
        mine.probes[name] = answered = probe.model_copy(update={"status": status})
        self._open.pop(name, None)
        if self._facts.probe_changed(probe, answered) is not None:
            self._answered(node)

    def _clear(self, mine: Questions, now: datetime) -> None:
        for name in [n for n, at in self._open.items() if at <= now]:
            del self._open[name]
        for name, probe in list(mine.probes.items()):
            made = probe.metadata.creation_timestamp or now
            if now >= made + RETENTION and not is_open(probe, now):
                self._facts.probe_changed(mine.probes.pop(name), None)


def _open(event: HostEvent) -> bool:
    return event.status.phase is not None and event.status.phase.open


def _name(node: str, source: str, external: str) -> str:
    digest = hashlib.sha256(f"{node}\0{source}\0{external}".encode()).hexdigest()[:16]
    return f"{source.lower()}-{digest}"
