"""Builds one FactSet per node from the caches and from what is remembered over time.

Remembered per node, bounded: what no object holds (remedy.remedier.node_memory), and the Events of
the last windows. Remembered of the whole fleet: HostEvents and HostProbes, on how many nodes a
fault is, and inferred facts of groups. Everything else is read from the cache on demand.

Handlers pass in each change, in any order of kinds, and return which nodes must be evaluated again.
After an evaluation `learned` takes the diagnosis: other nodes, or the same one, may have to be
evaluated again then.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
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
from remedy.hostprobes.schedule import OF_AGENTS
from remedy.noderecord.events import from_stored, to_stored
from remedy.remedier import hostevents
from remedy.remedier.boots import Boots
from remedy.remedier.bounds import RuleBounds
from remedy.remedier.eventtimes import occurrences
from remedy.remedier.fleet import NodeGroups
from remedy.remedier.hostevents import HostEvents
from remedy.remedier.inference import WideFacts
from remedy.remedier.latest import events_until
from remedy.remedier.leases import Ages
from remedy.remedier.node_memory import NodeMemory, differs, taints
from remedy.remedier.onsets import became_true
from remedy.remedier.past import Past
from remedy.remedier.samefault import SameFaults
from remedy.remedier.unreadable import FACTS, UnreadableNodes
from remedy.remedier.values import values
from rules.diagnose import Diagnosis
from rules.facts import EventFact, FactSet, Gap, ProbeFact
from rules.history import DAWN, RECENT_SPAN, ClockSteps, EventWindow
from rules.leaves.event import fits
from rules.sources import EVENTS, HOST_EVENTS

_NOTHING: frozenset[str] = frozenset()
RELISTED = timedelta(seconds=10)
"""After a gap, changes within this time may have happened at any moment of the gap."""
MOST_STRANGERS = 1024
"""Names with Events but without a known Node that are remembered: Events may be listed before
Nodes.
"""


class CacheState(Protocol):
    """A cache that knows whether it is current."""

    def fresh(self) -> bool:
        """Report whether the cache is current."""
        ...


class NodeSource(CacheState, Protocol):
    """The cache of Nodes; kubenode.runtime.kube.informer.Informer is one."""

    def get(self, key: str) -> Node | None: ...

    def readable(self, key: str) -> bool:
        """Report whether the newest version of the object could be decoded."""
        ...

    def unheard(self) -> Sequence[tuple[float, float]]:
        """Return the last gaps without updates, in monotonic seconds; the last one may still be
        open.
        """
        ...


class EventMemories(Protocol):
    """Events stored in node records."""

    def ready(self) -> bool: ...

    def past_events(self) -> Mapping[str, EventMemory]:
        """Return the stored Events by node."""
        ...


class FactStore:
    """Builds FactSets and remembers what they need.

    nodes: cache of Nodes
    past: returns the open jobs of a node, and closed ones from its node record
    sources: caches of Events and of HostEvents: leaves that read a stale one are unknown
    one_engine_is_enough: the operator's policy `reference`
    unanswered: fields of probes without anybody to answer: unknown at once, not after a wait
    leases: time since kubelets renewed their Leases; None: not followed
    boots: which boot a host runs; None: the one in its Node
    clock_offset: returns by how many seconds a host's clock is ahead; None: unknown
    is_silent: whether a node's agent is known to be silent: its answers are unknown at once
    memories: Events that outlive this process; None: none do
    restored: returns why a restore of etcd stops acts, "" if none does: conditions as first seen
        are unknown then until their reporter repeats them
    """

    def __init__(
        self,
        nodes: NodeSource,
        past: Callable[[str], Sequence[Past]],
        clock: Clock,
        sources: Sequence[CacheState] = (),
        accept_single_engine: bool = False,
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
        """Event leaves of rules with windows of over a day; None: no rules were loaded yet."""
        self._restored = restored
        self._leases, self._boots, self._clock_offset = leases, boots, clock_offset
        self._is_silent = is_silent
        self._of_silent = {name: ProbeFact(None, DAWN) for name in (*unanswered, *OF_AGENTS)}
        self._nodes, self._past, self._clock = nodes, past, clock
        self._sources = dict(zip((EVENTS, HOST_EVENTS), sources, strict=False))
        self._node_memory: dict[str, NodeMemory] = {}
        self._windows: dict[str, EventWindow] = {}
        self._pod_windows: dict[str, EventWindow] = {}
        self._pod_reasons: frozenset[str] | None = None
        """Reasons that loaded rules name: other Events about pods are ignored. None: no rules were
        loaded yet.
        """
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
        self.wide = WideFacts(self.fleet, accept_single_engine)
        self.shortest_max_age = timedelta(minutes=15)
        """The shortest `maxAge` of a loaded rule: a report after a silence of this length is a
        change.
        """

    def fresh(self) -> bool:
        """Report whether the cache of Nodes is current."""
        return self._nodes.fresh()

    def stale(self) -> frozenset[str]:
        """Return the names of the other caches that are not current."""
        late = [name for name, source in self._sources.items() if not source.fresh()]
        return frozenset(late) if late else _NOTHING

    def booted_at(self, node: str) -> datetime | None:
        """Return when the node last booted, from its Node alone; None if unknown."""
        memory = self._node_memory.get(node)
        return memory.booted_at if memory is not None else None

    def boot(self, name: str, agent: str) -> tuple[str, datetime | None]:
        """Return boot ID and boot time as jobs use them, from kubelet and agent; ("", None) if
        unknown. Rules use the Node alone (`booted_at`).
        """
        node, memory = self._nodes.get(name), self._node_memory.get(name)
        if node is None or memory is None:
            return "", None
        if self._boots is None:
            return memory.boot_id, memory.booted_at
        if not self._boots.known():
            return "", None
        boot_id = self._boots.of(node, agent)
        if boot_id in ("", memory.boot_id):
            return memory.boot_id, memory.booted_at
        return boot_id, self._boots.since(agent)

    # -- what changes ----------------------------------------------------------------------------

    def node_changed(self, name: str, old: Node | None, new: Node | None) -> bool:
        """Report whether the rules must evaluate the node again. An unchanged Node is a resync:
        yes.
        """
        if new is None:
            self.unreadable.forget(name)
        try:
            requeue = self._node_changed(name, old, new)
        except Exception as error:  # noqa: BLE001  one odd Node must not stop the others
            self.unreadable.failed(name, "Node", error)
            return True
        self.unreadable.succeeded(name, "Node")
        return requeue

    def _node_changed(self, name: str, old: Node | None, new: Node | None) -> bool:
        before = self.fleet.groups(name)
        moved = self.fleet.changed(old, new)
        if moved:
            self._woken |= self.bounds.passed({*before, *self.fleet.groups(name)})
        if new is None:
            self._node_memory.pop(name, None)
            self._windows.pop(name, None)
            self._pod_windows.pop(name, None)
            self._unlearn(name)
            return True
        memory, now = self._node_memory.get(name), self._now()
        if memory is None or memory.uid != new.metadata.uid:
            if memory is not None:
                self._unlearn(name)
            memory = self._node_memory[name] = NodeMemory.at_first_sight(new, now)
            if (window := self._strangers.pop(name, None)) is not None:
                self._windows[name] = window
            return True
        memory.see(new, now, self._deaf_until(now))
        if memory.conditions.ended_doubt:
            return True
        if memory.conditions.ended_silence >= self.shortest_max_age:
            return True
        return moved or old is None or old is new or differs(old, new, self.shortest_max_age)

    def event_changed(self, old: Event | None, new: Event | None) -> str | None:
        """Return the node to evaluate again; None for none. Deleted Events stay in their window
        until it ends.
        """
        event = new or old
        name = node_of(event) if event is not None else ""
        if event is None or not name:
            return None
        what = f"Event {event.metadata.name}"
        try:
            is_new = new is not None and self._hear(name, old, new)
        except Exception as error:  # noqa: BLE001  one odd Event must not stop the others
            self.unreadable.failed(name, what, error)
            return name
        self.unreadable.succeeded(name, what)
        return name if is_new and name in self._node_memory else None

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
        """Return the nodes to evaluate again: an event may move between nodes, and all nodes count
        when a silent source of alerts reports again.
        """
        events = [event for event in (old, new) if event is not None]
        node_names = {event.spec.node.name for event in events}
        what = f"HostEvent {events[-1].metadata.name}"
        try:
            everybody = self._host_event_changed(old, new)
        except Exception as error:  # noqa: BLE001  one odd HostEvent must not stop the others
            for name in node_names:
                self.unreadable.failed(name, what, error)
        else:
            for name in node_names:
                self.unreadable.succeeded(name, what)
            if everybody:
                return tuple(self._node_memory)
        return tuple(name for name in node_names if name in self._node_memory)

    def _host_event_changed(self, old: HostEvent | None, new: HostEvent | None) -> bool:
        """Report whether every node must be evaluated again."""
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
        """Return the node with a new answer, to be evaluated again; None for none."""
        return self.answers.changed(old, new)

    def rules_loaded(self, rules: Mapping[str, NodeRemedier]) -> None:
        """Take in all loaded rules, by rule id."""
        leaves = tuple(_event_leaves(rules.values()))
        self._long = tuple(leaf for leaf in leaves if leaf.within > RECENT_SPAN)
        reasons = frozenset(leaf.reason for leaf in leaves if leaf.reason is not None)
        self._pod_reasons = reasons
        for window in self._pod_windows.values():
            window.drop(lambda event: event.reason not in reasons)
        self._recall()
        for window in self._windows.values():
            window.sort_out()
        self.bounds.rules_loaded(rules)
        self.same_faults.rules_loaded(rules, self._node_memory)
        self.wide.rules_loaded(rules, self._node_memory, self._now())
        if self._leases is not None:
            self._leases.rules_loaded(rules.values())

    @property
    def unjudged(self) -> int:
        """Number of rules with unknown counts or group facts, because they have not evaluated every
        node yet.
        """
        return self.same_faults.unjudged + self.wide.unjudged

    def learned(self, name: str, diagnosis: Diagnosis) -> Collection[str]:
        """Take in the diagnosis of a node; return the nodes to evaluate again, perhaps the same one
        too.

        For a node that is gone, pass an empty Diagnosis.
        """
        matches = {match.rule_id: match for match in diagnosis.matches}
        now = self._now()
        woken = self.same_faults.learned(name, matches, now, self._became_true)
        woken |= self.wide.learned(name, matches, now)
        if self._woken:
            woken |= self._woken
            self._woken = set()
        return {n for n in woken if n in self._node_memory}

    def events_until(
        self, node: str, when: Expression | None, closed: datetime | None
    ) -> datetime | None:
        """Return the timestamp of the youngest Event that a closed job was made for;
        None for none.
        """
        return events_until(when, self._occurred(node, self._now()), closed)

    def past_events(self, name: str) -> EventMemory | None:
        """Return what the node record must remember of the node's Events; None: nothing."""
        window, memory = self._windows.get(name), self._node_memory.get(name)
        if window is None or memory is None:
            return None
        return to_stored(window.lasting(self._now()), memory.lived)

    def record_deleted(self, name: str) -> None:
        """Forget the node's remembered Events, because a person deleted its record."""
        if (window := self._windows.get(name)) is not None:
            window.forget_lasting()

    # -- what is known ---------------------------------------------------------------------------

    def facts(self, name: str) -> FactSet | None:
        """Return the node's facts; None for an unknown node. If something cannot be read, all facts
        are unknown.
        """
        node, memory = self._nodes.get(name), self._node_memory.get(name)
        if node is None:
            return None
        try:
            built = self._facts(name, node, memory) if memory is not None else None
        except Exception as error:  # noqa: BLE001  one odd object must not stop the others
            self.unreadable.failed(name, FACTS, error)
        else:
            self.unreadable.succeeded(name, FACTS)
        if not self.unreadable.hides_facts(name):
            return built
        meta = node.metadata
        return FactSet(node=name, uid=meta.uid, labels=meta.labels, fresh=False)

    def _facts(self, name: str, node: Node, memory: NodeMemory) -> FactSet:
        now = self._now()
        host_events, gaps = self.host_events.facts(node, now), self._unheard(now)
        known = memory.conditions
        conditions = known.facts_after_restore() if self._restored() else known.facts()
        return FactSet(
            node=name,
            uid=node.metadata.uid,
            labels=node.metadata.labels,
            annotations=node.metadata.annotations,
            taints=taints(node),
            conditions=conditions,
            events=self._events(name, memory, now),
            host_events=host_events,
            alerts=self.host_events.alerts(node, now),
            alerts_alive_at=self.host_events.alerts_alive_at(now),
            probes=self._probes(node, memory, now),
            values=values(
                node,
                self.fleet,
                self._past(name),
                memory.booted_at,
                now,
                host_events,
                self._lease_age(name),
                gaps,
                conditions.get("Ready"),
                self._clock_offset(node),
            ),
            inferred=self.wide.values(name, now),
            same_fault=self.same_faults.counts(name),
            onsets=self.same_faults.onsets(name),
            fresh=self.fresh() and self._nodes.readable(name),
            stale=self.stale(),
            unheard=gaps,
            watched=max((memory.watched, *(until for _, until in gaps))),
            changed=memory.keys.changed,
            unchanged_since=memory.keys.unchanged_since,
            sources_alive_at=self.host_events.list_source_reports(now),
        )

    def changes_at(self, name: str) -> datetime | None:
        """Return when the facts of a node next change by time alone, apart from leaves, which know
        it themselves: a HostEvent expires, a maintenance begins, an inferred fact ends. None:
        never.
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
        """Return the current time. After a step of the wall clock, remembered times
        keep their age.
        """
        now = self._clock.now()
        step = self._steps.step(now, self._clock.monotonic())
        if step:
            self._deaf = ()
            for memory in self._node_memory.values():
                memory.stepped(step, now)
            for windows in (self._windows, self._strangers, self._pod_windows):
                for window in windows.values():
                    window.stepped(now)
            self.wide.stepped(step)
            self.same_faults.stepped(step)
            self.host_events.stepped(step)
        return now

    def _unheard(self, now: datetime) -> Sequence[Gap]:
        """Return the gaps by the wall clock; the same object while nothing changes, so comparing is
        cheap.
        """
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
        """Return when the last gap without updates ended; now, if it is still open. None: there was
        none.
        """
        gaps = self._unheard(now)
        return gaps[-1][1] if gaps else None

    def _lease_age(self, name: str) -> float | None:
        return self._leases.age(name) if self._leases is not None else None

    def _events(self, name: str, memory: NodeMemory, now: datetime) -> Sequence[EventFact]:
        return tuple(event for event in self._occurred(name, now) if memory.lived(event.at))

    def _occurred(self, name: str, now: datetime) -> Sequence[EventFact]:
        """Return the Events about the node and about its pods, also of an earlier node."""
        self._recall()
        windows = (self._windows.get(name), self._pod_windows.get(name))
        facts_by_window = [window.facts(now) for window in windows if window is not None]
        if not facts_by_window:
            return ()
        return (
            facts_by_window[0]
            if len(facts_by_window) == 1
            else sorted(chain(*facts_by_window), key=attrgetter("at"))
        )

    def _probes(self, node: Node, memory: NodeMemory, now: datetime) -> Mapping[str, ProbeFact]:
        answers = self.answers.facts(node.metadata.name, now)
        nobody = self._of_silent if self._is_silent(node) else self._unanswered
        if not answers:
            return nobody
        lived = {
            field: replace(fact, earlier=tuple(e for e in fact.earlier if memory.lived(e[0])))
            for field, fact in answers.items()
            if memory.lived(fact.answered_at)
        }
        return {**nobody, **lived}

    def _lasts(self, event: EventFact) -> bool:
        return self._recalled and any(fits(leaf, event) for leaf in self._long or ())

    def _recall(self) -> None:
        """Load what the last leader stored, once, when this process begins to decide."""
        if self._recalled or self._long is None:
            return
        if self._memories is None or not self._memories.ready():
            return
        self._recalled = True
        for name, memory in self._memories.past_events().items():
            if name in self._node_memory:
                self._window(name).recall(from_stored(memory))
        for window in self._windows.values():
            window.sort_out()

    def _window(self, name: str) -> EventWindow:
        if name in self._node_memory:
            if (window := self._windows.get(name)) is None:
                window = self._windows[name] = EventWindow(self._lasts)
            return window
        if (window := self._strangers.get(name)) is None:
            window = self._strangers[name] = EventWindow(self._lasts)
        if len(self._strangers) > MOST_STRANGERS:
            del self._strangers[next(iter(self._strangers))]
        return window

    def _pod_window(self, name: str, event: Event) -> EventWindow | None:
        """Return the window for a kubelet's Event about a pod of the node; None: no rule names its
        reason.

        Pods have their own window, so that many of them displace no Event about the Node.
        """
        if self._pod_reasons is not None and event.reason not in self._pod_reasons:
            return None
        window = self._pod_windows.get(name)
        if window is None and (
            name in self._node_memory or len(self._pod_windows) < MOST_STRANGERS
        ):
            window = self._pod_windows[name] = EventWindow(about_pods=True)
        return window

    def _unlearn(self, name: str) -> None:
        """Remove the node from all counts; the next `learned` returns the nodes to
        evaluate again.
        """
        now = self._now()
        self._woken |= self.same_faults.learned(name, {}, now) | self.wide.node_gone(name, now)

    def _became_true(self, name: str, rule: NodeRemedier) -> datetime | None:
        facts = self.facts(name)
        return became_true(rule, facts) if facts is not None else None


def _event_leaves(rules: Iterable[NodeRemedier]) -> Iterator[EventLeaf]:
    for rule in rules:
        for expression in (rule.spec.when, rule.spec.unless):
            for leaf in expression.leaves() if expression is not None else ():
                if isinstance(leaf, EventLeaf):
                    yield leaf
