"""One FactSet per node, from what the informers hold and what only time tells.

Kept per node, bounded: what no object tells (remedy.remedier.kept), and the events of the last
windows. Kept of the whole fleet: what HostEvents and HostProbes
say, on how many nodes a fault is, and what was inferred of a group. Everything else is read from
the cache at the moment of asking.

Handlers call in with each change, in any order of kinds, and learn whether the rules must look
again. Whoever has asked the rules about a node tells what they said (`learned`): other nodes may
have to look again then, or this one.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.hostevent import HostEvent
from kubenode.api.v1alpha1.hostprobe import HostProbe
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.objects import Event, Node
from remedy.hostprobes.answers import Answers
from remedy.remedier import hostevents
from remedy.remedier.boots import Boots
from remedy.remedier.bounds import Bounds
from remedy.remedier.fleet import Fleet
from remedy.remedier.hostevents import HostEvents
from remedy.remedier.inferred import WideFacts
from remedy.remedier.kept import Kept, differs, taints
from remedy.remedier.leases import Ages
from remedy.remedier.past import Past
from remedy.remedier.samefault import SameFaults
from remedy.remedier.values import values
from rules.diagnose import Diagnosis
from rules.facts import EventFact, FactSet, Gap, ProbeFact
from rules.history import DAWN, ClockSteps, EventWindow

MOST_STRANGERS = 1024
"""Names of which we heard events but know no Node: it may be listed after its events."""


class Cached(Protocol):
    """A cache that knows whether it is current."""

    def fresh(self) -> bool: ...


class Nodes(Cached, Protocol):
    """The Nodes; kubenode.runtime.kube.informer.Informer is one."""

    def get(self, key: str) -> Node | None: ...

    def readable(self, key: str) -> bool:
        """False while the newest version of the object could not be decoded."""
        ...

    def unheard(self) -> Sequence[tuple[float, float]]:
        """The last gaps in which nothing was heard, by the monotonic clock; one may last."""
        ...


class FactStore:
    """nodes    the cache of Nodes
    past     gives the jobs of a node, open ones too
    sources  further caches: while one of them is stale, so is every FactSet
    one_engine_is_enough  the operator's policy `reference`
    unanswered  fields of probes that nobody is there to answer: unknown at once, not after a wait
    leases   how long ago kubelets renewed their Leases; None: nobody follows them
    boots    which boot hosts run; None: the one that their Nodes tell
    """

    def __init__(
        self,
        nodes: Nodes,
        past: Callable[[str], Sequence[Past]],
        clock: Clock,
        sources: Sequence[Cached] = (),
        one_engine_is_enough: bool = False,
        unanswered: Collection[str] = (),
        leases: Ages | None = None,
        boots: Boots | None = None,
    ) -> None:
        self._leases, self._boots = leases, boots
        self._nodes, self._past, self._clock, self._sources = nodes, past, clock, sources
        self._kept: dict[str, Kept] = {}
        self._windows: dict[str, EventWindow] = {}
        self._strangers: dict[str, EventWindow] = {}
        self._woken: set[str] = set()
        self._steps = ClockSteps()
        self._deaf: Sequence[tuple[float, float]] = ()
        self._gaps: Sequence[Gap] = ()
        self.fleet = Fleet()
        self.host_events = HostEvents()
        self.answers = Answers()
        self._unanswered = {name: ProbeFact(None, DAWN) for name in unanswered}
        self.bounds = Bounds(self.fleet)
        self.same_faults = SameFaults(self.fleet)
        self.wide = WideFacts(self.fleet, one_engine_is_enough)
        self.shortest_max_age = timedelta(minutes=15)
        """The shortest `maxAge` that a loaded rule asks for: a report after such a silence counts.
        """

    def fresh(self) -> bool:
        return self._nodes.fresh() and all(source.fresh() for source in self._sources)

    def booted_at(self, node: str) -> datetime | None:
        kept = self._kept.get(node)
        return kept.booted_at if kept is not None else None

    def boot(self, name: str, agent: str) -> tuple[str, datetime | None]:
        """What jobs go by. Rules go by what the Node tells alone (`booted_at`)."""
        node, kept = self._nodes.get(name), self._kept.get(name)
        if node is None or kept is None:
            return "", None
        if self._boots is None:
            return kept.boot_id, kept.booted_at
        if not self._boots.known():
            return "", None
        boot_id = self._boots.of(node, agent)
        if boot_id in ("", kept.boot_id):
            return kept.boot_id, kept.booted_at
        return boot_id, self._boots.since(agent)

    # -- what changes ----------------------------------------------------------------------------

    def node_changed(self, name: str, old: Node | None, new: Node | None) -> bool:
        """Whether the rules must look at the node again. An unchanged one is a resync: yes."""
        before = self.fleet.groups(name)
        moved = self.fleet.changed(old, new)
        if moved:
            self._woken |= self.bounds.passed({*before, *self.fleet.groups(name)})
        if new is None:
            self._kept.pop(name, None)
            self._windows.pop(name, None)
            self._unlearn(name)
            return True
        kept, now = self._kept.get(name), self._now()
        if kept is None or kept.uid != new.metadata.uid:
            kept = self._kept[name] = Kept.at_first_sight(new, now)
            if (window := self._strangers.pop(name, None)) is not None:
                self._windows[name] = window
            old = None
        kept.see(new, now)
        return moved or old is None or old is new or differs(old, new, self.shortest_max_age)

    def event_changed(self, old: Event | None, new: Event | None) -> str | None:
        """The node to look at again, if any. Deleted Events stay in their window until it ends."""
        if new is None or new.involved_object.kind != "Node":
            return None
        name, now = new.involved_object.name, self._now()
        heard = self._window(name).hear(
            new.metadata.uid,
            reason=new.reason,
            message=new.message,
            source=new.source.component or new.reporting_component,
            severity=new.type,
            count=max(new.count, new.series.count if new.series else 0, 1),
            at=_event_time(new) or now,
            first=new.first_timestamp or new.event_time,
            now=now,
        )
        return name if heard and name in self._kept else None

    def host_event_changed(self, old: HostEvent | None, new: HostEvent | None) -> Collection[str]:
        """The nodes to look at again: an event may move from one to another, and all have to when
        the source of alerts was silent and is heard again.
        """
        now = self._now()
        if self.host_events.changed(old, new, now):
            return tuple(self._kept)
        if new is not None and new.spec.node.name:
            name = new.spec.node.name
            node = self._nodes.get(name)
            if node is None or hostevents.is_about(new, node):
                hostevents.hear(self._window(name), new, now)
        told = {e.spec.node.name for e in (old, new) if e is not None}
        return tuple(name for name in told if name in self._kept)

    def probe_changed(self, old: HostProbe | None, new: HostProbe | None) -> str | None:
        """The node to look at again, if any: one about which something was answered."""
        return self.answers.changed(old, new)

    def rules_loaded(self, rules: Mapping[str, NodeRemedier]) -> None:
        """All that are loaded, by the ids that a Diagnosis gives them."""
        self.bounds.rules_loaded(rules)
        self.same_faults.rules_loaded(rules, self._kept)
        self.wide.rules_loaded(rules, self._kept, self._now())
        if self._leases is not None:
            self._leases.rules_loaded(rules.values())

    @property
    def unjudged(self) -> int:
        """Rules whose counts and facts of groups are unknown: they have not judged every node."""
        return self.same_faults.unjudged + self.wide.unjudged

    def learned(self, name: str, diagnosis: Diagnosis) -> Collection[str]:
        """What the rules said of a node; which nodes must look again, perhaps this one too.

        Of a node that is gone an empty Diagnosis is told.
        """
        matches = {match.rule_id: match for match in diagnosis.matches}
        now = self._now()
        woken = self.same_faults.learned(name, matches) | self.wide.learned(name, matches, now)
        if self._woken:
            woken |= self._woken
            self._woken = set()
        return {n for n in woken if n in self._kept}

    # -- what is known ---------------------------------------------------------------------------

    def facts(self, name: str) -> FactSet | None:
        node, kept = self._nodes.get(name), self._kept.get(name)
        if node is None or kept is None:
            return None
        now = self._now()
        told, gaps = self.host_events.facts(node, now), self._unheard(now)
        return FactSet(
            node=name,
            uid=node.metadata.uid,
            labels=node.metadata.labels,
            annotations=node.metadata.annotations,
            taints=taints(node),
            conditions=kept.conditions.facts(),
            events=self._events(name, kept, now),
            host_events=told,
            alerts=self.host_events.alerts(node, now),
            alerts_heard=self.host_events.heard(now),
            probes=self._probes(name, kept, now),
            values=values(
                node,
                self.fleet,
                self._past(name),
                kept.booted_at,
                now,
                told,
                self._lease_age(name),
                gaps,
            ),
            inferred=self.wide.values(name, now),
            same_fault=self.same_faults.counts(name),
            fresh=self.fresh() and self._nodes.readable(name),
            unheard=gaps,
            watched=max((kept.watched, *(until for _, until in gaps))),
            changed=kept.keys.changed,
            unchanged_since=kept.keys.unchanged_since,
            sources_heard=self.host_events.sources_heard(now),
        )

    def changes_at(self, name: str) -> datetime | None:
        """When the facts of a node change next with nothing but time, leaves aside (those know it
        themselves): a HostEvent expires, a maintenance begins, an inferred fact is kept no longer.
        """
        node = self._nodes.get(name)
        if node is None:
            return None
        now = self._now()
        times = (
            self.host_events.changes_at(node, now),
            self.wide.changes_at(name, now),
            self._leases.changes_at(name) if self._leases is not None else None,
        )
        return min((at for at in times if at is not None), default=None)

    # -- inside ----------------------------------------------------------------------------------

    def _now(self) -> datetime:
        """What is remembered keeps its age when the wall clock was set."""
        now = self._clock.now()
        step = self._steps.step(now, self._clock.monotonic())
        if step:
            self._deaf = ()
            for kept in self._kept.values():
                kept.stepped(step, now)
            for window in (*self._windows.values(), *self._strangers.values()):
                window.stepped(now)
            self.wide.stepped(step)
            self.host_events.stepped(step)
        return now

    def _unheard(self, now: datetime) -> Sequence[Gap]:
        """The same ones while nothing changes: whoever compares need not read anything again."""
        deaf = self._nodes.unheard()
        if deaf != self._deaf:
            start = now - timedelta(seconds=self._clock.monotonic())
            self._deaf = deaf
            self._gaps = tuple(
                (start + timedelta(seconds=since), start + timedelta(seconds=until))
                for since, until in deaf
            )
        return self._gaps

    def _lease_age(self, name: str) -> float | None:
        return self._leases.age(name) if self._leases is not None else None

    def _events(self, name: str, kept: Kept, now: datetime) -> Sequence[EventFact]:
        window = self._windows.get(name)
        if window is None:
            return ()
        return tuple(event for event in window.facts(now) if kept.lived(event.at))

    def _probes(self, name: str, kept: Kept, now: datetime) -> Mapping[str, ProbeFact]:
        found = self.answers.facts(name, now)
        if not found:
            return self._unanswered
        lived = {field: fact for field, fact in found.items() if kept.lived(fact.answered_at)}
        return {**self._unanswered, **lived}

    def _window(self, name: str) -> EventWindow:
        if name in self._kept:
            return self._windows.setdefault(name, EventWindow())
        window = self._strangers.setdefault(name, EventWindow())
        if len(self._strangers) > MOST_STRANGERS:
            del self._strangers[next(iter(self._strangers))]
        return window

    def _unlearn(self, name: str) -> None:
        """Nothing that was said of the node counts any more; who has to look again is told by the
        next `learned`.
        """
        now = self._now()
        self._woken |= self.same_faults.learned(name, {}) | self.wide.learned(name, {}, now)


def _event_time(event: Event) -> datetime | None:
    last = event.series.last_observed_time if event.series else None
    times = [t for t in (last, event.last_timestamp, event.event_time) if t is not None]
    return max(times, default=event.first_timestamp)
