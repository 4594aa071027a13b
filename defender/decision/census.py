"""Counts of all nodes and of healthy nodes, for the cluster, label values and the control plane.

Kube Defender counts from Nodes and does not trust the holders that ask. Counting 10,000 nodes for
each request would take milliseconds, so each change of a node updates the sums. `_due` lists nodes
whose health changes with time alone, at the end of the startup grace.

A scope whose breaker is open is *dark*. Its nodes are left out of the sums of every group that has
other nodes too, so that two healthy zones can be repaired while the third is dark. They stay in
groups that are entirely dark, and in the control plane, where a quorum counts and not a ratio.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from defender.decision.coverage import (
    CLUSTER,
    CONTROL_PLANE,
    CONTROL_PLANE_LABELS,
    Coverage,
    Group,
    PolicyCoverage,
    in_scope,
    is_control_plane,
    scope_of,
)
from defender.decision.policies import BUILT_IN, LoadedPolicy
from kubenode.api.foreign import DELETION_TAINTS, foreign_mark
from kubenode.runtime.hosttime import as_written
from kubenode.runtime.kube.objects import Node, NodeCondition

__all__ = [
    "CLUSTER",
    "CONTROL_PLANE",
    "CONTROL_PLANE_LABELS",
    "Census",
    "CensusMember",
    "CensusTally",
    "Group",
    "NodeHealth",
    "scope_of",
]
STARTUP_GRACE = timedelta(minutes=5)
"""Time in which a new node need not be ready."""
BORN_NOT_READY = timedelta(minutes=1)
"""Time after its creation: a node whose Ready has not changed since then has never been ready."""


class NodeHealth(StrEnum):
    """Health of a node, as limits count it."""

    HEALTHY = "Healthy"
    """Ready and schedulable."""
    UNHEALTHY = "Unhealthy"
    STARTING = "Starting"
    """Never ready yet, as far as is known. Neither faulty nor available."""
    LEAVING = "Leaving"
    """Being deleted. Neither faulty nor available."""


@dataclass(frozen=True, slots=True)
class CensusMember:
    """A node as limits count it.

    until: when its health may change with time alone, None for never.
    foreign: the mark of another owner that works on it, "" for none.
    """

    name: str
    uid: str
    labels: dict[str, str]
    health: NodeHealth
    until: datetime | None = None
    foreign: str = ""

    @property
    def control_plane(self) -> bool:
        return is_control_plane(self.labels)

    @property
    def counted(self) -> bool:
        """Whether percentages are taken of the node: it is healthy or unhealthy."""
        return self.health in (NodeHealth.HEALTHY, NodeHealth.UNHEALTHY)


def member_of(node: Node, now: datetime, grace: timedelta, was_ready: bool = False) -> CensusMember:
    """Return the node as limits count it.

    was_ready: this node, by its UID, was observed ready before, so it is not starting.
    """
    health, until = _health(node, now, grace, was_ready)
    meta = node.metadata
    return CensusMember(meta.name, meta.uid, dict(meta.labels), health, until, _foreign(node))


def _foreign(node: Node) -> str:
    meta = node.metadata
    if meta.deletion_timestamp is not None:
        return "metadata.deletionTimestamp"
    return foreign_mark((taint.key for taint in node.spec.taints), meta.annotations, meta.labels)


def _health(
    node: Node, now: datetime, grace: timedelta, was_ready: bool
) -> tuple[NodeHealth, datetime | None]:
    if node.metadata.deletion_timestamp is not None or _marked(node):
        return NodeHealth.LEAVING, None
    ready = node.ready_condition
    if ready is not None and ready.status == "True":
        return (NodeHealth.UNHEALTHY if node.spec.unschedulable else NodeHealth.HEALTHY), None
    born = node.metadata.creation_timestamp
    if was_ready:  # faulty although it is new, or a cluster of new nodes would have no limits
        return NodeHealth.UNHEALTHY, None
    if born is not None and now < born + grace:
        return NodeHealth.STARTING, born + grace
    return (NodeHealth.STARTING if _never_ready(ready, born) else NodeHealth.UNHEALTHY), None


def _marked(node: Node) -> bool:
    return any(taint.key in DELETION_TAINTS for taint in node.spec.taints)


def _never_ready(ready: NodeCondition | None, born: datetime | None) -> bool:
    if ready is None:
        return True
    since = ready.last_transition_time
    return born is not None and since is not None and as_written(since) <= born + BORN_NOT_READY


@dataclass(slots=True)
class CensusTally:
    """Numbers of nodes in a group.

    everyone: all nodes, including those that start or leave.
    members: nodes that are healthy or unhealthy.
    healthy: healthy nodes, including those with an open permit.
    taken: healthy nodes with an open permit.
    """

    everyone: int = 0
    members: int = 0
    healthy: int = 0
    taken: int = 0

    @property
    def free(self) -> int:
        """Number of healthy nodes without an open permit."""
        return self.healthy - self.taken

    def add(self, other: "CensusTally", sign: int) -> None:
        self.everyone += sign * other.everyone
        self.members += sign * other.members
        self.healthy += sign * other.healthy
        self.taken += sign * other.taken


def _tally_member(member: CensusMember, taken: bool) -> CensusTally:
    healthy = member.health is NodeHealth.HEALTHY
    return CensusTally(1, int(member.counted), int(healthy), int(healthy and taken))


NONE = CensusTally()


class Census:
    """All nodes, and their sums for each group of each policy."""

    def __init__(self, grace: timedelta = STARTUP_GRACE) -> None:
        self.grace = grace
        self.coverage = Coverage()
        self.on_moved: Callable[[str], None] = lambda name: None
        """Called with the name of each node that appears, disappears or changes groups."""
        self._nodes: dict[str, Node] = {}
        self._members: dict[str, CensusMember] = {}
        self._places: dict[str, PolicyCoverage] = {}
        self._taken: set[str] = set()
        self._tallies: dict[Group, CensusTally] = {}
        self._due: dict[str, datetime] = {}
        self._were_ready: dict[str, str] = {}
        self._dark: dict[str, frozenset[str]] = {}
        self._dark_tallies: dict[Group, CensusTally] = {}

    def put(self, node: Node, now: datetime) -> None:
        name, uid = node.metadata.name, node.metadata.uid
        if node.is_ready:  # cordoned or not
            self._were_ready[name] = uid
        was_ready = self._were_ready.get(name) == uid
        member = member_of(node, now, self.grace, was_ready)
        place, before = self.coverage.place(member.labels), self._places.get(name)
        if member == self._members.get(name) and place is before:
            self._nodes[name] = node
            return
        self._drop(name)
        self._nodes[name] = node
        self._members[name] = member
        self._places[name] = place
        if place is not before:
            self.on_moved(name)
        if member.until is not None:
            self._due[name] = member.until
        self._count(member, place, +1)

    def remove(self, name: str) -> None:
        if name in self._members:
            self.on_moved(name)
            self._drop(name)
            self._were_ready.pop(name, None)

    def _drop(self, name: str) -> None:
        member = self._members.pop(name, None)
        if member is None:
            return
        self._count(member, self._places.pop(name), -1)
        del self._nodes[name]
        self._due.pop(name, None)

    def advance(self, now: datetime) -> None:
        """Let time pass: update nodes whose startup grace is over."""
        for name in [name for name, at in self._due.items() if at <= now]:
            self.put(self._nodes[name], now)

    def govern(self, policies: Iterable[LoadedPolicy], fallback: LoadedPolicy = BUILT_IN) -> None:
        """Count by the groups of these policies from now on."""
        self.coverage = Coverage(policies, fallback)
        names = {policy.name for policy in self.coverage.everyone}
        self._dark = {name: scopes for name, scopes in self._dark.items() if name in names}
        self._tallies.clear()
        self._dark_tallies.clear()
        alike: dict[int, tuple[PolicyCoverage, CensusTally]] = {}
        for name, member in self._members.items():
            place = self._places[name] = self.coverage.place(member.labels)
            _, sums = alike.setdefault(id(place), (place, CensusTally()))
            sums.add(_tally_member(member, name in self._taken), +1)
        for place, sums in alike.values():
            for group in place.groups:
                self._add(self._tallies, group, sums, +1)
        for policy in self._dark:
            self._count_the_dark(policy)

    def take(self, name: str, taken: bool) -> None:
        """Set whether the node has an open permit."""
        if taken is (name in self._taken):
            return
        member, place = self._members.get(name), self._places.get(name)
        if member is not None and place is not None:
            self._count(member, place, -1)
        (self._taken.add if taken else self._taken.discard)(name)
        if member is not None and place is not None:
            self._count(member, place, +1)

    def darken(self, policy: str, scopes: frozenset[str]) -> None:
        """Set the scopes of the policy whose breakers are open."""
        if scopes == self._dark.get(policy, frozenset()):
            return
        for group in [group for group in self._dark_tallies if group[0] == policy]:
            del self._dark_tallies[group]
        self._dark.pop(policy, None)
        if scopes:
            self._dark[policy] = scopes
            self._count_the_dark(policy)

    def _count_the_dark(self, policy: str) -> None:
        for name, member in self._members.items():
            if self._in_the_dark(member, policy):
                tally = _tally_member(member, name in self._taken)
                for group in self._places[name].groups:
                    if group[0] == policy:
                        self._add(self._dark_tallies, group, tally, +1)

    def _count(self, member: CensusMember, place: PolicyCoverage, sign: int) -> None:
        tally = _tally_member(member, member.name in self._taken)
        dark = [policy for policy in self._dark if self._in_the_dark(member, policy)]
        for group in place.groups:
            self._add(self._tallies, group, tally, sign)
            if dark and group[0] in dark:
                self._add(self._dark_tallies, group, tally, sign)

    def _add(
        self, sums: dict[Group, CensusTally], group: Group, other: CensusTally, sign: int
    ) -> None:
        tally = sums.get(group)
        if tally is None:
            tally = sums[group] = CensusTally()
        tally.add(other, sign)
        if tally.everyone == 0:
            del sums[group]

    # -- reading ------------------------------------------------------------------------------

    def member(self, name: str) -> CensusMember | None:
        return self._members.get(name)

    def node(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def is_taken(self, name: str) -> bool:
        return name in self._taken

    def place(self, name: str) -> PolicyCoverage | None:
        return self._places.get(name)

    def __len__(self) -> int:
        return len(self._members)

    def tally(self, group: Group) -> CensusTally:
        """Return the sums of the group, without dark nodes unless the whole group is dark."""
        everyone = self._tallies.get(group, NONE)
        if not self._dims(group):
            return everyone
        lit = replace(everyone)
        lit.add(self._dark_tallies[group], -1)
        return lit

    def _dims(self, group: Group) -> bool:
        """Return whether dark nodes are left out of the group."""
        dark = self._dark_tallies.get(group)
        if dark is None or group[1] == CONTROL_PLANE:
            return False
        return dark.everyone < self._tallies[group].everyone

    def _in_the_dark(self, member: CensusMember, policy: str) -> bool:
        return any(in_scope(scope, member.labels) for scope in self._dark.get(policy, ()))

    def is_excluded(self, member: CensusMember, group: Group) -> bool:
        """Return whether a node of the group is not counted in its sums."""
        return self._dims(group) and self._in_the_dark(member, group[0])

    def groups(self) -> list[Group]:
        """Return the groups that have nodes."""
        return list(self._tallies)

    def belongs(self, name: str, group: Group) -> bool:
        place = self._places.get(name)
        return place is not None and group in place.groups

    def counts(self) -> dict[NodeHealth, int]:
        """Return the numbers of nodes by health, whether they have permits or not."""
        totals = dict.fromkeys(NodeHealth, 0)
        for member in self._members.values():
            totals[member.health] += 1
        return totals
