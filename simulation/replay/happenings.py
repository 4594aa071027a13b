"""Applies the signals of a timeline to a simulated fleet."""

from collections.abc import Callable, Iterable
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial

from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.leaves import (
    AlertLeaf,
    ConditionLeaf,
    EventLeaf,
    FactLeaf,
    HostEventLeaf,
)
from kubenode.runtime.hosttime import host_time
from kubenode.runtime.kube import objects
from kubenode.runtime.kube.node_events import KUBELET
from kubenode.runtime.kube.objects import KubeObjectMeta
from remedy.remedier.facts import FactStore
from remedy.remedier.leases import LEASE_AGE
from rules.history import CLIP
from rules.leaves.pattern import finds_pattern
from rules.leaves.unread import WARNINGS
from simulation.replay.clock import SetClock
from simulation.replay.fleet import Fleet
from simulation.replay.jobs import Jobs
from simulation.replay.leases import Leases
from simulation.replay.moments import Moment, instant
from simulation.replay.outside import Hosts, Later, ReplayHostDoctor
from simulation.replay.signals import (
    Delivery,
    Log,
    NodeSnapshot,
    SimulatedCondition,
    SimulatedEvent,
)
from simulation.replay.timeline import Entry
from simulation.replay.watchers import Watchers, Written

MOST_REMEMBERED = 4096
"""Distinct Events whose relevance to the rules is cached."""


class EventsRead:
    """Decides which Events some rule counts. Other Events cause no evaluation."""

    def __init__(self, rules: Iterable[NodeRemedier]) -> None:
        self._by_reason: dict[str | None, list[EventLeaf]] = {}
        self._counts_unread = False
        self._known: dict[tuple[str, str, str, str], bool] = {}
        for rule in rules:
            for leaf in rule.spec.unwrap_leaves():
                if isinstance(leaf, EventLeaf):
                    self._by_reason.setdefault(leaf.reason, []).append(leaf)
                elif isinstance(leaf, FactLeaf) and leaf.name == WARNINGS:
                    self._counts_unread = True

    def reads(self, event: SimulatedEvent) -> bool:
        key = event.reason, event.source, event.severity, event.message[:CLIP]
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            known = self._known[key] = self._counts(event)
        return known

    def _counts(self, event: SimulatedEvent) -> bool:
        leaves = [*self._by_reason.get(event.reason, ()), *self._by_reason.get(None, ())]
        return (self._counts_unread and event.severity == "Warning") or any(
            leaf.source in (None, event.source)
            and leaf.severity in (None, event.severity)
            and finds_pattern(leaf.message, event.message[:CLIP])
            for leaf in leaves
        )


class Happenings:
    """Applies entries of a timeline.

    created: creates a node that exists from now on.
    woken: called with the names of nodes that must be evaluated again.
    later: schedules a call at a later time.
    """

    def __init__(
        self,
        start: datetime,
        clock: SetClock,
        fleet: Fleet,
        facts: FactStore,
        doctor: ReplayHostDoctor,
        hosts: Hosts,
        leases: Leases,
        jobs: Jobs,
        created: Callable[[str, NodeSnapshot | None], None],
        woken: Callable[[Iterable[str]], None],
        later: Later,
    ) -> None:
        self._read = EventsRead(())
        self._start, self._clock, self._fleet, self._facts = start, clock, fleet, facts
        self._doctor, self._hosts, self._leases, self._jobs = doctor, hosts, leases, jobs
        self._created, self._woken, self._later = created, woken, later
        self._watchers = Watchers()
        self._events = 0
        self.signals = 0

    def rules_loaded(self, rules: Iterable[NodeRemedier]) -> None:
        self._read = EventsRead(rules)

    def happen(self, entry: Entry) -> None:
        """Apply one entry now.

        Entries about a missing node are ignored, except the one that creates it.
        """
        if not entry.node:
            self.signals += 1
            if entry.alert_source is not None:
                self._woken(self._doctor.source_of_alerts(entry.alert_source))
            elif entry.delivery is not None:
                self._delivered("", entry.delivery)
            return
        for pattern in entry.nodes:
            for name in self._named(pattern):
                self.signals += 1
                if entry.lifecycle == "created":
                    self._created(name, entry.look)
                elif name in self._fleet.nodes:
                    self._to_node(name, entry)

    def cure(self, node: str, rule: NodeRemedier) -> None:
        """End what the rule reads as evidence, after a repair has helped."""
        if node not in self._fleet.nodes:
            return
        for leaf in rule.spec.when.leaves():
            if isinstance(leaf, ConditionLeaf):
                self._end_condition(node, leaf)
            elif isinstance(leaf, HostEventLeaf | AlertLeaf):
                self._woken(self._doctor.end(node, leaf))
            elif isinstance(leaf, FactLeaf) and leaf.name == LEASE_AGE:
                self._leases.booted(node)
                self._woken((node,))

    def booted(self, node: str) -> None:
        """Restart the node's agent after a boot."""
        if node in self._fleet.nodes:
            self._written(node, self._watchers.booted(node, self._clock.now()))

    def _named(self, pattern: str) -> list[str]:
        if "*" not in pattern:
            return [pattern]
        return [name for name in self._fleet.nodes if fnmatchcase(name, pattern)]

    def _to_node(self, name: str, entry: Entry) -> None:
        now, fleet = self._clock.now(), self._fleet
        if entry.condition is not None:
            fleet.condition(name, entry.condition, now)
        elif entry.event is not None:
            self._event(name, entry.event)
        elif entry.heard is not None:
            fleet.hear(name, entry.heard, now)
        elif entry.silent is not None:
            fleet.silence(name, entry.silent, now)
        elif entry.label is not None:
            fleet.label(name, entry.label)
        elif entry.annotation is not None:
            fleet.annotate(name, entry.annotation)
        elif entry.taint is not None:
            fleet.taint(name, entry.taint)
        elif entry.cordon is not None:
            fleet.cordon(name, entry.cordon)
        elif entry.boot is not None:
            fleet.boot(name, entry.boot.id)
            self._jobs.wake_node(name)
        elif entry.system is not None:
            fleet.system(name, entry.system)
        elif entry.lifecycle is not None:
            fleet.delete(name)
            self._hosts.forget(name)
            self._watchers.forget(name)
            self._jobs.wake_node(name)
        else:
            self._from_outside(name, entry)

    def _from_outside(self, name: str, entry: Entry) -> None:
        uid = self._fleet.nodes[name].metadata.uid
        if entry.host_event is not None:
            self._woken(self._doctor.event(name, uid, entry.host_event))
            self._jobs.wake_node(name)
        elif entry.alert is not None:
            self._woken(self._doctor.alert(name, uid, entry.alert))
            self._jobs.wake_node(name)
        elif entry.delivery is not None:
            self._delivered(name, entry.delivery)
        elif entry.log is not None:
            self._lines(name, entry.log)
        elif entry.probe is not None:
            self._hosts.answer(name, entry.probe)
        elif entry.lease is not None:
            self._leases.say(name, renewed=entry.lease == "renewed")
            self._woken((name,))
            self._jobs.wake_node(name)
        elif entry.pods is not None:
            self._fleet.reporters[name].pods = entry.pods
        elif entry.evictions is not None:
            self._fleet.reporters[name].evictions = entry.evictions
        elif entry.person is not None:
            self._jobs.person(name, entry.person)
        else:
            raise AssertionError(f"signal {entry.signal} has no meaning here")

    def _delivered(self, name: str, delivery: Delivery) -> None:
        for node in self._doctor.deliver(name, delivery):
            self._woken((node,))
            self._jobs.wake_node(node)

    def _lines(self, name: str, log: Log) -> None:
        self._written(name, self._watchers.line(name, log, self._clock.now()))

    def _passed(self, name: str) -> None:
        self._written(name, self._watchers.passed(name, self._clock.now()))

    def _written(self, name: str, written: Iterable[Written]) -> None:
        """Apply what the node's agent writes to the API server."""
        for signal in written:
            if isinstance(signal, SimulatedEvent):
                self._event(name, signal)
            else:
                self._fleet.condition(name, signal, self._clock.now())
        if (at := self._watchers.due(name)) is not None:
            self._later(at, partial(self._passed, name))

    def _event(self, name: str, signal: SimulatedEvent) -> None:
        self._events += 1
        now = self._clock.now()
        last = self._at(signal.last) or now
        together = signal.count == 1 or not signal.uid
        first = self._at(signal.first) or (last if together else None)
        uid = signal.uid or f"event-{self._events}"
        event = objects.Event(
            KubeObjectMeta(name=uid, uid=uid),
            _about(name, signal),
            type=signal.severity,
            reason=signal.reason,
            message=signal.message,
            source=_source(name, signal),
            count=signal.count,
            first_timestamp=None if first is None else host_time(first),
            last_timestamp=host_time(last),
        )
        if self._facts.event_changed(None, event) is not None and self._read.reads(signal):
            self._woken((name,))
            self._jobs.wake_node(name)

    def _end_condition(self, node: str, leaf: ConditionLeaf) -> None:
        conditions = self._fleet.nodes[node].status.conditions
        if any(c.type == leaf.type and c.status == leaf.status for c in conditions):
            well = leaf.status is not ConditionStatus.TRUE
            status = ConditionStatus.TRUE if well else ConditionStatus.FALSE
            signal = SimulatedCondition(type=leaf.type, status=status)
            self._fleet.condition(node, signal, self._clock.now())
            self._watchers.ended(node, leaf.type, self._clock.now())

    def _at(self, moment: Moment | None) -> datetime | None:
        return None if moment is None else instant(moment, self._start)


def _about(node: str, signal: SimulatedEvent) -> objects.ObjectReference:
    if signal.about_pod:
        return objects.ObjectReference(kind="Pod", name="pod", namespace="default")
    return objects.ObjectReference(kind="Node", name=node)


def _source(node: str, signal: SimulatedEvent) -> objects.EventSource:
    if signal.about_pod:
        return objects.EventSource(component=KUBELET, host=node)
    return objects.EventSource(component=signal.source)
