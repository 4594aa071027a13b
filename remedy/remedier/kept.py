"""What must be remembered of one node, since no object says it: since when, and what before."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubenode.runtime.kube.objects import Node, NodeCondition
from remedy.remedier.fleet import is_ready
from rules.history import ConditionClock

NODE_CONTROLLER_WROTE = "NodeStatusUnknown"
"""Reason that kube-controller-manager gives the conditions of a node that fell silent."""
MOST_KEYS = 256


@dataclass(slots=True)
class Kept:
    """watched    since when we hear of the node without a gap
    changed    `label:KEY`, `annotation:KEY`, `taint:KEY` to when it became what it is
    unchanged_since  since when all other keys are what they are
    """

    uid: str
    created: datetime | None
    watched: datetime
    boot_id: str
    booted_at: datetime | None
    unchanged_since: datetime
    conditions: ConditionClock = field(default_factory=ConditionClock)
    changed: Mapping[str, datetime] = field(default_factory=dict)

    @classmethod
    def at_first_sight(cls, node: Node, now: datetime) -> "Kept":
        """A node that became Ready lately may have booted then: we were not there to see."""
        ready = next((c for c in node.status.conditions if c.type == "Ready"), None)
        booted = ready.last_transition_time if ready is not None and is_ready(node) else None
        return cls(
            uid=node.metadata.uid,
            created=node.metadata.creation_timestamp,
            watched=now,
            boot_id=node.status.node_info.boot_id,
            booted_at=booted,
            unchanged_since=now,
        )

    def lived(self, at: datetime) -> bool:
        """Whether this machine had the name then, not the one before it."""
        return self.created is None or at >= self.created

    def see(self, old: Node | None, new: Node, now: datetime) -> None:
        """Take in what the node is now; `old` is what we saw of it before."""
        boot_id = new.status.node_info.boot_id
        if boot_id and self.boot_id and boot_id != self.boot_id:
            self.booted_at = now
        self.boot_id = boot_id or self.boot_id
        for condition in new.status.conditions:
            self._hear(condition, now)
        if old is not None and old is not new and (keys := list(_keys_changed(old, new))):
            self._keys(keys, now)

    def _keys(self, keys: list[str], now: datetime) -> None:
        self.changed = {**self.changed, **dict.fromkeys(keys, now)}
        if len(self.changed) > MOST_KEYS:
            self.changed, self.unchanged_since = {}, now

    def _hear(self, condition: NodeCondition, now: datetime) -> None:
        heard = condition.last_heartbeat_time
        if heard is None or condition.reason == NODE_CONTROLLER_WROTE:
            heard = now  # the node controller writes no heartbeat; our informer heard of it now
        self.conditions.hear(
            condition.type,
            status=condition.status,
            reason=condition.reason,
            message=condition.message,
            transition=condition.last_transition_time,
            heard=min(heard, now),
            now=now,
        )


def _keys_changed(old: Node, new: Node) -> Iterator[str]:
    a, b = old.metadata, new.metadata
    pairs: list[tuple[str, Mapping[str, str], Mapping[str, str]]] = []
    if a.labels != b.labels:
        pairs.append(("label", a.labels, b.labels))
    if a.annotations != b.annotations:
        pairs.append(("annotation", a.annotations, b.annotations))
    if old.spec.taints != new.spec.taints:
        taints = ({t.key: t.value for t in node.spec.taints} for node in (old, new))
        pairs.append(("taint", next(taints), next(taints)))
    for kind, before, after in pairs:
        for key in before.keys() | after.keys():
            if before.get(key) != after.get(key):
                yield f"{kind}:{key}"


def differs(old: Node, new: Node, silence: timedelta) -> bool:
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
    if old.status.allocatable != new.status.allocatable:
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
