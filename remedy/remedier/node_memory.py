"""What must be remembered of one node because no object holds it: start times and
earlier values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubenode.runtime.kube.objects import Node, NodeCondition
from rules.history import ConditionClock, KeyClock
from rules.nodereports import node_reports


@dataclass(slots=True)
class NodeMemory:
    """What is remembered of one node.

    watched: since when we get updates of the node without a gap
    booted_at: by our clock; None: not known
    """

    uid: str
    created: datetime | None
    watched: datetime
    boot_id: str
    booted_at: datetime | None
    keys: KeyClock
    conditions: ConditionClock = field(default_factory=ConditionClock)

    @classmethod
    def at_first_sight(cls, node: Node, now: datetime) -> "NodeMemory":
        """Create the memory of a new node. A node that became Ready recently may have
        booted then.
        """
        memory = cls(
            uid=node.metadata.uid,
            created=node.metadata.creation_timestamp,
            watched=now,
            boot_id=node.status.node_info.boot_id,
            booted_at=None,
            keys=KeyClock(now),
        )
        memory.see(node, now)
        ready = memory.conditions.facts().get("Ready")
        memory.booted_at = ready.since if ready is not None and ready.status == "True" else None
        return memory

    def lived(self, at: datetime) -> bool:
        """Report whether this machine, not an earlier one, had the name at that time."""
        return self.created is None or at >= self.created

    def see(self, node: Node, now: datetime, deaf_until: datetime | None = None) -> None:
        """Take in the current Node. deaf_until: when our last gap ended, see ConditionClock."""
        boot_id = node.status.node_info.boot_id
        if boot_id and self.boot_id and boot_id != self.boot_id:
            self.booted_at = now
            self.conditions.booted()
        self.boot_id = boot_id or self.boot_id
        self.conditions.take(node_reports(node), now, deaf_until)
        self.keys.take("label", node.metadata.labels, now)
        self.keys.take("annotation", node.metadata.annotations, now)
        self.keys.take("taint", taints(node), now)

    def stepped(self, step: timedelta, now: datetime) -> None:
        """Move remembered times after a step of our wall clock, so that they keep their age."""
        self.watched += step
        if self.booted_at is not None:
            self.booted_at += step
        self.conditions.stepped(step, now)
        self.keys.stepped(step)


def taints(node: Node) -> Mapping[str, str]:
    return {taint.key: taint.value for taint in node.spec.taints}


def differs(old: Node, new: Node, silence: timedelta) -> bool:
    """Report whether anything but a heartbeat changed, or a heartbeat ended a silence of at least
    `silence`, by the host's own clock.
    """
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
