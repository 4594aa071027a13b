"""One FactSet per node, from what the informers hold and what only time tells.

Kept per node, bounded: what no object tells (remedy.remedier.kept), and the events of the last
windows. Kept of the whole fleet: what HostEvents and HostProbes
say, on how many nodes a fault is, and what was inferred of a group. Everything else is read from
the cache at the moment of asking.

Handlers call in with each change, in any order of kinds, and learn whether the rules must look
again. Whoever has asked the rules about a node tells what they said (`learned`): other nodes may
have to look again then, or this one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from operator import attrgetter
from typing import Protocol

from kubenode.api.v1alpha1 import Expression, NodeRemedier
from kubenode.api.v1alpha1.hostevent import HostEvent
from kubenode.api.v1alpha1.hostprobe import HostProbe
from kubenode.api.v1alpha1.leaves import EventLeaf
from kubenode.api.v1alpha1.noderecord import EventMemory
from kubenode.runtime.clock import Clock
from kubenode.runtime.disruption.guard import never_frozen
from kubenode.runtime.kube.node_events import is_about_pod, node_of
from kubenode.runtime.kube.objects import Event, Node
from remedy.hostprobes.answers import ProbeAnswers
from remedy.hostprobes.asking import OF_AGENTS
from remedy.noderecord.events import from_stored, to_stored
from remedy.remedier import hostevents
from remedy.remedier.boots import Boots
from remedy.remedier.bounds import RuleBounds
from remedy.remedier.eventtimes import occurrences
from remedy.remedier.fleet import NodeGroups
from remedy.remedier.hostevents import HostEvents
from remedy.remedier.inferred import WideFacts
from remedy.remedier.kept import NodeMemory, differs, taints
from remedy.remedier.latest import events_until
from remedy.remedier.leases import Ages
from remedy.remedier.past import Past
from remedy.remedier.samefault import SameFaults
from remedy.remedier.unreadable import FACTS, UnreadableNodes
from remedy.remedier.values import values
from rules.diagnose import Diagnosis
from rules.facts import EventFact, FactSet, Gap, ProbeFact
from rules.history import DAWN, ONE_DAY, ClockSteps, EventWindow
from rules.leaves.event import fits
from rules.sources import EVENTS, HOST_EVENTS

_NOTHING: frozenset[str] = frozenset()
RELISTED = timedelta(seconds=10)
"""After a time in which we heard nobody: what comes now may have happened at any time in it."""
MOST_STRANGERS = 1024
"""Names of which we heard events but know no Node: it may be listed after its events."""


class CacheState(Protocol):
    """A cache that knows whether it is current."""

    def fresh(self) -> bool: ...


class CombinedCache:
    """Several caches as one source: it is current while all of them are."""

    def __init__(self, *caches: CacheState) -> None:
        self._caches = caches

    def fresh(self) -> bool:
        return all(cache.fresh() for cache in self._caches)


class NodeSource(CacheState, Protocol):
    """The Nodes; kubenode.runtime.kube.informer.Informer is one."""

    def get(self, key: str) -> Node | None: ...

    def readable(self, key: str) -> bool:
        """False while the newest version of the object could not be decoded."""
        ...

    def unheard(self) -> Sequence[tuple[float, float]]:
        """The last gaps in which nothing was heard, by the monotonic clock; one may last."""
        ...


class EventMemories(Protocol):
    """What the records of nodes remember of Events."""

    def ready(self) -> bool: ...

    def past_events(self) -> Mapping[str, EventMemory]:
        """By node, of those of which anything is remembered."""
        ...


class FactStore:
    """nodes    the cache of Nodes
    past     gives the open jobs of a node, and what its record tells of closed ones
    sources  the caches of Events and of HostEvents: what reads a stale one is unknown
    one_engine_is_enough  the operator's policy `reference`
    unanswered  fields of probes that nobody is there to answer: unknown at once, not after a wait
    leases   how long ago kubelets renewed their Leases; None: nobody follows them
    boots    which boot hosts run; None: the one that their Nodes tell
    clock_offset  seconds by which a host's clock is ahead, None: unknown
    is_silent  whether a node's agent is known to be: what it would answer is unknown at once
    memories   what outlives this process of Events; None: nothing does
    restored   why a restore of etcd freezes, "" if none does: what a Node showed at first sight
               is unknown then until its reporter repeats it
    """

    def __init__(
        self,
        nodes: NodeSource,
        past: Callable[[str], Sequence[Past]],
        clock: Clock,
        sources: Sequence[CacheState] = (),
        one_engine_is_enough: bool = False,
        unanswered: Collection[str] = (),
        leases: Ages | None = None,
        boots: Boots | None = None,
        clock_offset: Callable[[Node], float | None] = lambda node: None,
        is_silent: Callable[[Node], bool] = lambda node: False,
        memories: EventMemories | None = None,
        restored: Callable[[], str] = never_frozen,
    ) -> None:
        self._memories, self._recalled = memories, memories is None
        self._long: tuple[EventLeaf, ...] | None = None
        """What rules count in windows of over a day; None: no rules were loaded yet."""
        self._restored = restored
        self._leases, self._boots, self._clock_offset = leases, boots, clock_offset
        self._is_silent = is_silent
        self._of_silent = {name: ProbeFact(None, DAWN) for name in (*unanswered, *OF_AGENTS)}
        self._nodes, self._past, self._clock = nodes, past, clock
        self._sources = dict(zip((EVENTS, HOST_EVENTS), sources, strict=False))
        self._kept: dict[str, NodeMemory] = {}
        self._windows: dict[str, EventWindow] = {}
        self._pod_windows: dict[str, EventWindow] = {}
        self._pod_reasons: frozenset[str] | None = None
        """What loaded rules name: other Events about pods do not count. None: no rules yet."""
        self._strangers: dict[str, EventWindow] = {}
        self._woken: set[str] = set()
        self._steps = ClockSteps()
        self._deaf: Sequence[tuple[float, float]] = ()
        self._gaps: Sequence[Gap] = ()
        self.unreadable = UnreadableNodes()
        self.fleet = NodeGroups()
        self.host_events = HostEvents()
        self.answers = ProbeAnswers()
        self._unanswered = {name: ProbeFact(None, DAWN) for name in unanswered}
        self.bounds = RuleBounds(self.fleet)
        self.same_faults = SameFaults(self.fleet)
        self.wide = WideFacts(self.fleet, one_engine_is_enough)
        self.shortest_max_age = timedelta(minutes=15)
        """The shortest `maxAge` that a loaded rule asks for: a report after such a silence counts.
        """

    def fresh(self) -> bool:
        """Whether the cache of Nodes is current."""
        return self._nodes.fresh()

    def stale(self) -> frozenset[str]:
        """The names of further caches that are not current."""
        late = [name for name, source in self._sources.items() if not source.fresh()]
        return frozenset(late) if late else _NOTHING

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
        if new is None:
            self.unreadable.forget(name)
        try:
            look_again = self._node_changed(name, old, new)
        except Exception as error:  # noqa: BLE001  one odd Node must not stop the others
            self.unreadable.failed(name, "Node", error)
            return True
        self.unreadable.succeeded(name, "Node")
        return look_again

    def _node_changed(self, name: str, old: Node | None, new: Node | None) -> bool:
        before = self.fleet.groups(name)
        moved = self.fleet.changed(old, new)
        if moved:
            self._woken |= self.bounds.passed({*before, *self.fleet.groups(name)})
        if new is None:
            self._kept.pop(name, None)
            self._windows.pop(name, None)
            self._pod_windows.pop(name, None)
            self._unlearn(name)
            return True
        kept, now = self._kept.get(name), self._now()
        if kept is None or kept.uid != new.metadata.uid:
            kept = self._kept[name] = NodeMemory.at_first_sight(new, now)
            if (window := self._strangers.pop(name, None)) is not None:
                self._windows[name] = window
            return True
        kept.see(new, now, self._deaf_until(now))
        if kept.conditions.ended_doubt:
            return True
        if kept.conditions.ended_silence >= self.shortest_max_age:
            return True
        return moved or old is None or old is new or differs(old, new, self.shortest_max_age)

    def event_changed(self, old: Event | None, new: Event | None) -> str | None:
        """The node to look at again, if any. Deleted Events stay in their window until it ends."""
        event = new or old
        name = node_of(event) if event is not None else ""
        if event is None or not name:
            return None
        what = f"Event {event.metadata.name}"
        try:
            heard = new is not None and self._hear(name, old, new)
        except Exception as error:  # noqa: BLE001  one odd Event must not stop the others
            self.unreadable.failed(name, what, error)
            return name
        self.unreadable.succeeded(name, what)
        return name if heard and name in self._kept else None

    def _hear(self, name: str, old: Event | None, new: Event) -> bool:
        now = self._now()
        deaf_until = self._deaf_until(now)
        live = old is not None and (deaf_until is None or now - deaf_until > RELISTED)
        first, at = occurrences(new, now, live)
        if is_about_pod(new):
            window = self._pod_window(name, new)
            if window is None:
                return False
        else:
            window = self._window(name)
        return window.hear(
            new.metadata.uid,
            reason=new.reason,
            message=new.message,
            source=new.source.component or new.reporting_component,
            severity=new.type,
            count=max(new.count, new.series.count if new.series else 0, 1),
            at=at,
            first=first,
            now=now,
        )

    def host_event_changed(self, old: HostEvent | None, new: HostEvent | None) -> Collection[str]:
        """The nodes to look at again: an event may move from one to another, and all have to when
        the source of alerts was silent and is heard again.
        """
        events = [event for event in (old, new) if event is not None]
        told = {event.spec.node.name for event in events}
        what = f"HostEvent {events[-1].metadata.name}"
        try:
            everybody = self._host_event_changed(old, new)
        except Exception as error:  # noqa: BLE001  one odd HostEvent must not stop the others
            for name in told:
                self.unreadable.failed(name, what, error)
        else:
            for name in told:
                self.unreadable.succeeded(name, what)
            if everybody:
                return tuple(self._kept)
        return tuple(name for name in told if name in self._kept)

    def _host_event_changed(self, old: HostEvent | None, new: HostEvent | None) -> bool:
        """Whether every node has to look again."""
        now = self._now()
        if self.host_events.changed(old, new, now):
            return True
        if new is not None and new.spec.node.name:
            name = new.spec.node.name
            node = self._nodes.get(name)
            if node is None or hostevents.is_about(new, node):
                hostevents.hear(self._window(name), new, now)
        return False

    def probe_changed(self, old: HostProbe | None, new: HostProbe | None) -> str | None:
        """The node to look at again, if any: one about which something was answered."""
        return self.answers.changed(old, new)

    def rules_loaded(self, rules: Mapping[str, NodeRemedier]) -> None:
        """All that are loaded, by the ids that a Diagnosis gives them."""
        leaves = tuple(_event_leaves(rules.values()))
        self._long = tuple(leaf for leaf in leaves if leaf.within > ONE_DAY)
        reasons = frozenset(leaf.reason for leaf in leaves if leaf.reason is not None)
        self._pod_reasons = reasons
        for window in self._pod_windows.values():
            window.drop(lambda event: event.reason not in reasons)
        self._recall()
        for window in self._windows.values():
            window.sort_out()
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

    def events_until(
        self, node: str, when: Expression | None, closed: datetime | None
    ) -> datetime | None:
        """The stamp of the youngest Event that a job, which has closed, was made for."""
        self._recall()
        window = self._windows.get(node)
        return None if window is None else events_until(when, window.facts(self._now()), closed)

    def past_events(self, name: str) -> EventMemory | None:
        """What the record of the node has to remember of its Events; None: nothing."""
        window, kept = self._windows.get(name), self._kept.get(name)
        if window is None or kept is None:
            return None
        return to_stored(window.lasting(self._now()), kept.lived)

    def record_deleted(self, name: str) -> None:
        """A person made us forget the node's past."""
        if (window := self._windows.get(name)) is not None:
            window.forget_lasting()

    # -- what is known ---------------------------------------------------------------------------

    def facts(self, name: str) -> FactSet | None:
        """None for a node that is not known; of one that cannot be read all is unknown."""
        node, kept = self._nodes.get(name), self._kept.get(name)
        if node is None:
            return None
        try:
            found = self._facts(name, node, kept) if kept is not None else None
        except Exception as error:  # noqa: BLE001  one odd object must not stop the others
            self.unreadable.failed(name, FACTS, error)
        else:
            self.unreadable.succeeded(name, FACTS)
        if not self.unreadable.hides_facts(name):
            return found
        meta = node.metadata
        return FactSet(node=name, uid=meta.uid, labels=meta.labels, fresh=False)

    def _facts(self, name: str, node: Node, kept: NodeMemory) -> FactSet:
        now = self._now()
        told, gaps = self.host_events.facts(node, now), self._unheard(now)
        known = kept.conditions
        conditions = known.facts_after_restore() if self._restored() else known.facts()
        return FactSet(
            node=name,
            uid=node.metadata.uid,
            labels=node.metadata.labels,
            annotations=node.metadata.annotations,
            taints=taints(node),
            conditions=conditions,
            events=self._events(name, kept, now),
            host_events=told,
            alerts=self.host_events.alerts(node, now),
            alerts_heard=self.host_events.heard(now),
            probes=self._probes(node, kept, now),
            values=values(
                node,
                self.fleet,
                self._past(name),
                kept.booted_at,
                now,
                told,
                self._lease_age(name),
                gaps,
                conditions.get("Ready"),
                self._clock_offset(node),
            ),
            inferred=self.wide.values(name, now),
            same_fault=self.same_faults.counts(name),
            fresh=self.fresh() and self._nodes.readable(name),
            stale=self.stale(),
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
            for windows in (self._windows, self._strangers, self._pod_windows):
                for window in windows.values():
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

    def _deaf_until(self, now: datetime) -> datetime | None:
        """When the last gap ended in which no reporter could be heard; now, if it lasts."""
        gaps = self._unheard(now)
        return gaps[-1][1] if gaps else None

    def _lease_age(self, name: str) -> float | None:
        return self._leases.age(name) if self._leases is not None else None

    def _events(self, name: str, kept: NodeMemory, now: datetime) -> Sequence[EventFact]:
        self._recall()
        windows = (self._windows.get(name), self._pod_windows.get(name))
        found = [window.facts(now) for window in windows if window is not None]
        if not found:
            return ()
        events = found[0] if len(found) == 1 else sorted(chain(*found), key=attrgetter("at"))
        return tuple(event for event in events if kept.lived(event.at))

    def _probes(self, node: Node, kept: NodeMemory, now: datetime) -> Mapping[str, ProbeFact]:
        found = self.answers.facts(node.metadata.name, now)
        nobody = self._of_silent if self._is_silent(node) else self._unanswered
        if not found:
            return nobody
        lived = {field: fact for field, fact in found.items() if kept.lived(fact.answered_at)}
        return {**nobody, **lived}

    def _lasts(self, event: EventFact) -> bool:
        return self._recalled and any(fits(leaf, event) for leaf in self._long or ())

    def _recall(self) -> None:
        """Once, when this process begins to decide: what the last leader stored."""
        if self._recalled or self._long is None:
            return
        if self._memories is None or not self._memories.ready():
            return
        self._recalled = True
        for name, memory in self._memories.past_events().items():
            if name in self._kept:
                self._window(name).recall(from_stored(memory))
        for window in self._windows.values():
            window.sort_out()

    def _window(self, name: str) -> EventWindow:
        if name in self._kept:
            if (window := self._windows.get(name)) is None:
                window = self._windows[name] = EventWindow(self._lasts)
            return window
        if (window := self._strangers.get(name)) is None:
            window = self._strangers[name] = EventWindow(self._lasts)
        if len(self._strangers) > MOST_STRANGERS:
            del self._strangers[next(iter(self._strangers))]
        return window

    def _pod_window(self, name: str, event: Event) -> EventWindow | None:
        """Where the kubelet's Event about a pod of the node counts; None: no rule names its reason.

        Pods have a window of their own, so that many of them displace no Event about the Node.
        """
        if self._pod_reasons is not None and event.reason not in self._pod_reasons:
            return None
        window = self._pod_windows.get(name)
        if window is None and (name in self._kept or len(self._pod_windows) < MOST_STRANGERS):
            window = self._pod_windows[name] = EventWindow(about_pods=True)
        return window

    def _unlearn(self, name: str) -> None:
        """Nothing that was said of the node counts any more; who has to look again is told by the
        next `learned`.
        """
        now = self._now()
        self._woken |= self.same_faults.learned(name, {}) | self.wide.learned(name, {}, now)


def _event_leaves(rules: Iterable[NodeRemedier]) -> Iterator[EventLeaf]:
    for rule in rules:
        for expression in (rule.spec.when, rule.spec.unless):
            for leaf in expression.leaves() if expression is not None else ():
                if isinstance(leaf, EventLeaf):
                    yield leaf
