"""One FactSet per node, from what the informers hold and what only time tells.

Kept per node, bounded: since when each condition has its status, by our clock; the events of the
last windows; when its host last booted. Everything else is read from the caches at the moment of
asking. Handlers of the informers call in here and learn whether the rules must look again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Event, Node, NodeCondition
from remedy.remedier.fleet import Fleet, is_ready
from remedy.remedier.past import Past
from remedy.remedier.values import values
from rules.facts import FactSet
from rules.history import ConditionClock, EventWindow

NODE_CONTROLLER_WROTE = "NodeStatusUnknown"
"""Reason that kube-controller-manager gives the conditions of a node that fell silent."""


@dataclass(slots=True)
class Kept:
    uid: str
    boot_id: str
    booted_at: datetime | None
    conditions: ConditionClock = field(default_factory=ConditionClock)
    events: EventWindow = field(default_factory=EventWindow)


class FactStore:
    """`past` gives the jobs of a node, open ones too."""

    def __init__(
        self,
        nodes: Informer[Node],
        events: Informer[Event],
        past: Callable[[str], Sequence[Past]],
        clock: Clock,
    ) -> None:
        self._nodes, self._events, self._past, self._clock = nodes, events, past, clock
        self._kept: dict[str, Kept] = {}
        self.fleet = Fleet()
        self.shortest_max_age = timedelta(minutes=15)
        """The shortest `maxAge` that a loaded rule asks for: a report after such a silence counts.
        """

    def fresh(self) -> bool:
        return self._nodes.fresh()

    def booted_at(self, node: str) -> datetime | None:
        kept = self._kept.get(node)
        return kept.booted_at if kept is not None else None

    def boot(self, node: str) -> tuple[str, datetime | None]:
        kept = self._kept.get(node)
        return (kept.boot_id, kept.booted_at) if kept is not None else ("", None)

    def node_changed(self, name: str, old: Node | None, new: Node | None) -> bool:
        """Whether the rules must look at the node again. An unchanged one is a resync: yes."""
        self.fleet.changed(old, new)
        if new is None:
            self._kept.pop(name, None)
            return True
        kept = self._kept.get(name)
        if kept is None or kept.uid != new.metadata.uid:
            kept = self._kept[name] = self._first_sight(new)
        now = self._clock.now()
        boot_id = new.status.node_info.boot_id
        if boot_id and kept.boot_id and boot_id != kept.boot_id:
            kept.booted_at = now
        kept.boot_id = boot_id or kept.boot_id
        for condition in new.status.conditions:
            self._hear(kept, condition, now)
        return old is None or old is new or _differs(old, new, self.shortest_max_age)

    def event_changed(self, old: Event | None, new: Event | None) -> str | None:
        """The node to look at again, if any. Deleted Events stay in their window until it ends."""
        if new is None or new.involved_object.kind != "Node":
            return None
        kept = self._kept.get(new.involved_object.name)
        if kept is None:
            return None
        heard = kept.events.hear(
            new.metadata.uid,
            reason=new.reason,
            message=new.message,
            source=new.source.component or new.reporting_component,
            severity=new.type,
            count=max(new.count, new.series.count if new.series else 0, 1),
            at=_event_time(new) or self._clock.now(),
            first=new.first_timestamp or new.event_time,
        )
        return new.involved_object.name if heard else None

    def facts(self, name: str) -> FactSet | None:
        node, kept = self._nodes.get(name), self._kept.get(name)
        if node is None or kept is None:
            return None
        now = self._clock.now()
        return FactSet(
            node=name,
            uid=node.metadata.uid,
            labels=node.metadata.labels,
            annotations=node.metadata.annotations,
            taints={t.key: t.value for t in node.spec.taints},
            conditions=kept.conditions.facts(),
            events=kept.events.facts(now),
            values=values(node, self.fleet, self._past(name), kept.booted_at, now),
            fresh=self.fresh() and self._nodes.readable(name),
        )

    def _first_sight(self, node: Node) -> Kept:
        """A node that became Ready lately may have booted then: we were not there to see."""
        ready = next((c for c in node.status.conditions if c.type == "Ready"), None)
        booted = ready.last_transition_time if ready is not None and is_ready(node) else None
        return Kept(node.metadata.uid, node.status.node_info.boot_id, booted)

    def _hear(self, kept: Kept, condition: NodeCondition, now: datetime) -> None:
        heard = condition.last_heartbeat_time
        if heard is None or condition.reason == NODE_CONTROLLER_WROTE:
            heard = now  # the node controller writes no heartbeat; our informer heard of it now
        kept.conditions.hear(
            condition.type,
            status=condition.status,
            reason=condition.reason,
            message=condition.message,
            transition=condition.last_transition_time,
            heard=min(heard, now),
            now=now,
        )


def _differs(old: Node, new: Node, silence: timedelta) -> bool:
    """Whether anything but a heartbeat changed, or a heartbeat ended a silence that matters."""
    a, b = old.metadata, new.metadata
    if (a.labels, a.annotations, a.deletion_timestamp) != (
        b.labels,
        b.annotations,
        b.deletion_timestamp,
    ):
        return True
    if old.spec != new.spec or old.status.node_info != new.status.node_info:
        return True
    before = {c.type: c for c in old.status.conditions}
    if len(before) != len(new.status.conditions):
        return True
    return any(_condition_differs(before.get(c.type), c, silence) for c in new.status.conditions)


def _condition_differs(old: NodeCondition | None, new: NodeCondition, silence: timedelta) -> bool:
    if old is None or (old.status, old.reason, old.message) != (
        new.status,
        new.reason,
        new.message,
    ):
        return True
    if old.last_heartbeat_time is None or new.last_heartbeat_time is None:
        return False
    return new.last_heartbeat_time - old.last_heartbeat_time >= silence


def _event_time(event: Event) -> datetime | None:
    last = event.series.last_observed_time if event.series else None
    times = [t for t in (last, event.last_timestamp, event.event_time) if t is not None]
    return max(times, default=event.first_timestamp)
