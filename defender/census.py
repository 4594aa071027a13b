"""How many nodes are there, and how many are healthy: by cluster, by label value, control plane.

Kube Defender counts by itself, from Nodes, and does not believe whoever asks. Counting 10,000
nodes for each question would take milliseconds, so the sums are kept up to date with every change
of a node; what changes with time alone (the end of a start-up grace) is kept in `_due`.

Permits are not known here: a node that is healthy by itself but has an open permit is taken off
by the limits, which see both.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from defender.policies import Policy
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope
from kubenode.runtime.kube.objects import Node, NodeCondition

CLUSTER = "cluster"
CONTROL_PLANE = "control-plane"
CONTROL_PLANE_LABELS = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
)
DELETION_TAINTS = frozenset(
    {"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"}
)
"""Marks of autoscalers on a node that they are about to delete."""
STARTUP_GRACE = timedelta(minutes=5)
BORN_NOT_READY = timedelta(minutes=1)
"""A node whose Ready has not changed since this long after its creation has never been ready."""


class Health(StrEnum):
    HEALTHY = "Healthy"
    """Ready and schedulable."""
    UNHEALTHY = "Unhealthy"
    STARTING = "Starting"
    """Never ready yet, as far as we know: no fault, and no reserve."""
    LEAVING = "Leaving"
    """Being deleted: no fault, and no reserve."""


@dataclass(frozen=True, slots=True)
class Member:
    """A node as the limits see it. `until` is when its health may change by time alone."""

    name: str
    uid: str
    labels: dict[str, str]
    health: Health
    until: datetime | None = None

    @property
    def control_plane(self) -> bool:
        return any(label in self.labels for label in CONTROL_PLANE_LABELS)

    @property
    def counted(self) -> bool:
        """Whether it is one of the nodes that shares are taken of."""
        return self.health in (Health.HEALTHY, Health.UNHEALTHY)


def member_of(node: Node, now: datetime, grace: timedelta, was_ready: bool = False) -> Member:
    """`was_ready`: we have seen this very node ready, so it is not one that never was."""
    health, until = _health(node, now, grace, was_ready)
    meta = node.metadata
    return Member(meta.name, meta.uid, dict(meta.labels), health, until)


def _health(
    node: Node, now: datetime, grace: timedelta, was_ready: bool
) -> tuple[Health, datetime | None]:
    if node.metadata.deletion_timestamp is not None or _marked(node):
        return Health.LEAVING, None
    ready = next((c for c in node.status.conditions if c.type == "Ready"), None)
    if ready is not None and ready.status == "True":
        return (Health.UNHEALTHY if node.spec.unschedulable else Health.HEALTHY), None
    born = node.metadata.creation_timestamp
    if was_ready:  # what failed young is a fault all the same, or a young fleet has no limits
        return Health.UNHEALTHY, None
    if born is not None and now < born + grace:
        return Health.STARTING, born + grace
    return (Health.STARTING if _never_ready(ready, born) else Health.UNHEALTHY), None


def _marked(node: Node) -> bool:
    return any(taint.key in DELETION_TAINTS for taint in node.spec.taints)


def _never_ready(ready: NodeCondition | None, born: datetime | None) -> bool:
    if ready is None:
        return True
    since = ready.last_transition_time
    return born is not None and since is not None and since <= born + BORN_NOT_READY


@dataclass(slots=True)
class Tally:
    """`everyone` counts starting and leaving nodes too, `members` and `healthy` do not."""

    everyone: int = 0
    members: int = 0
    healthy: int = 0

    def add(self, member: Member, sign: int) -> None:
        self.everyone += sign
        self.members += sign * member.counted
        self.healthy += sign * (member.health is Health.HEALTHY)


Group = tuple[str, str]
"""Name of a policy, and a scope in it: `cluster`, `control-plane` or `label=value`."""
NONE = Tally()


def scope_of(limit: Limit, labels: Mapping[str, str], control_plane: bool) -> str | None:
    """The scope of `limit` that a node is in; None if the limit is not about it."""
    match limit.scope:
        case LimitScope.CLUSTER:
            return CLUSTER
        case LimitScope.CONTROL_PLANE:
            return CONTROL_PLANE if control_plane else None
        case LimitScope.LABEL:
            # A node without the label belongs to no group; an empty value is a value.
            value = labels.get(limit.label or "")
            return None if value is None else f"{limit.label}={value}"
        case LimitScope.FLEET:
            return None


class Census:
    """All nodes, and their sums for every group of every policy."""

    def __init__(self, grace: timedelta = STARTUP_GRACE) -> None:
        self.grace = grace
        self._nodes: dict[str, Node] = {}
        self._members: dict[str, Member] = {}
        self._groups: dict[str, frozenset[Group]] = {}
        self._tallies: dict[Group, Tally] = {}
        self._due: dict[str, datetime] = {}
        self._were_ready: dict[str, str] = {}
        self._policies: tuple[Policy, ...] = ()

    def put(self, node: Node, now: datetime) -> None:
        name, uid = node.metadata.name, node.metadata.uid
        was_ready = self._were_ready.get(name) == uid
        member = member_of(node, now, self.grace, was_ready)
        self.remove(name)
        if was_ready or member.health is Health.HEALTHY:
            self._were_ready[name] = uid
        self._nodes[name] = node
        self._members[name] = member
        if member.until is not None:
            self._due[name] = member.until
        self._count(member)

    def remove(self, name: str) -> None:
        member = self._members.pop(name, None)
        if member is None:
            return
        del self._nodes[name]
        self._due.pop(name, None)
        self._were_ready.pop(name, None)
        for group in self._groups.pop(name):
            self._tallies[group].add(member, -1)

    def advance(self, now: datetime) -> None:
        """Let time pass: nodes whose grace is over are judged anew."""
        for name in [name for name, at in self._due.items() if at <= now]:
            self.put(self._nodes[name], now)

    def govern(self, policies: Iterable[Policy]) -> None:
        """Count by the groups of these policies from now on."""
        self._policies = tuple(policies)
        self._tallies.clear()
        for member in self._members.values():
            self._count(member)

    def _count(self, member: Member) -> None:
        groups = frozenset(self._groups_of(member))
        self._groups[member.name] = groups
        for group in groups:
            self._tallies.setdefault(group, Tally()).add(member, +1)

    def _groups_of(self, member: Member) -> Iterable[Group]:
        for policy in self._policies:
            if policy.spec is None or not policy.covers(member.labels):
                continue
            yield policy.name, CLUSTER
            for limit in policy.spec.limits:
                scope = scope_of(limit, member.labels, member.control_plane)
                if scope is not None:
                    yield policy.name, scope

    # -- reading ------------------------------------------------------------------------------

    def member(self, name: str) -> Member | None:
        return self._members.get(name)

    def __len__(self) -> int:
        return len(self._members)

    def tally(self, group: Group) -> Tally:
        return self._tallies.get(group, NONE)

    def belongs(self, name: str, group: Group) -> bool:
        return group in self._groups.get(name, ())

    def counts(self) -> dict[Health, int]:
        """Nodes by health, permits not regarded."""
        found = dict.fromkeys(Health, 0)
        for member in self._members.values():
            found[member.health] += 1
        return found
