"""Counts unhealthy nodes of zones, racks, pools, virtual machine hosts and the cluster as they
change.

A node counts as unhealthy while its Ready condition is not True; a node that is being deleted
counts in no group. A node without a group's label belongs to no such group, and the ratio of an
empty group is 0.

Nodes with the same kernel, image or component revision are groups too, which distinguish a common
cause from chance.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from kubenode.runtime.kube.objects import Node

GROUP_LABELS = {
    "zone": "topology.kubernetes.io/zone",
    "rack": "kubenode.io/rack",
    "pool": "kubenode.io/pool",
    "vmHost": "kubenode.io/vm-host",
}
COMPONENT_REVISION = "kubenode.io/component-revision"
"""Annotation on a Node: the revision of the components that run on it."""
Group = tuple[str, str]
"""Scope and value, such as ("zone", "b"); ("cluster", "") is the whole cluster."""
CLUSTER: Group = ("cluster", "")
LONGEST_VALUE = 253


@dataclass(slots=True)
class GroupCount:
    """Nodes of a group: how many, how many are unhealthy, and their names."""

    nodes: int = 0
    unhealthy: int = 0
    names: set[str] = field(default_factory=set)


NOBODY = GroupCount()


def figures(count: GroupCount) -> dict[str, int | float]:
    """Return the facts of a group, by the part of their names after the dot."""
    ratio = count.unhealthy / count.nodes if count.nodes else 0.0
    return {"nodes": count.nodes, "unhealthy": count.unhealthy, "unhealthyRatio": ratio}


def is_ready(node: Node) -> bool | None:
    """Return whether the node is Ready; None if it has no Ready condition or its status
    is Unknown.
    """
    ready = node.ready_condition
    return {"True": True, "False": False}.get(ready.status) if ready is not None else None


def groups_of(node: Node) -> Iterator[Group]:
    """Yield the groups of a node."""
    yield CLUSTER
    labels, info = node.metadata.labels, node.status.node_info
    for scope, label in GROUP_LABELS.items():
        if value := labels.get(label):
            yield scope, value
    if info.kernel_version:
        yield "kernel", info.kernel_version[:LONGEST_VALUE]
    if info.os_image:
        yield "image", info.os_image[:LONGEST_VALUE]
    if revision := node.metadata.annotations.get(COMPONENT_REVISION):
        yield "componentRevision", revision[:LONGEST_VALUE]


@dataclass(frozen=True, slots=True)
class NodePlace:
    """The groups that count a node, and whether as unhealthy."""

    groups: tuple[Group, ...] = ()
    unhealthy: bool = False


NOWHERE = NodePlace()


class NodeGroups:
    """Counts of all groups."""

    def __init__(self) -> None:
        self._counts: dict[Group, GroupCount] = {}
        self._places: dict[str, NodePlace] = {}

    def changed(self, old: Node | None, new: Node | None) -> bool:
        """Count a change; report whether any figure changed."""
        node = new or old
        if node is None:
            return False
        name = node.metadata.name
        before, after = self._places.pop(name, NOWHERE), _place(new)
        if after is not NOWHERE:
            self._places[name] = after
        if before == after:
            return False
        self._count(name, before, -1)
        self._count(name, after, 1)
        return True

    def count(self, group: Group) -> GroupCount:
        return self._counts.get(group, NOBODY)

    def all(self) -> Collection[Group]:
        return self._counts.keys()

    def members(self, group: Group) -> Collection[str]:
        """Return the names of a group's nodes. Callers must not keep the collection: it changes
        with the group.
        """
        return self.count(group).names

    def groups(self, node: str) -> tuple[Group, ...]:
        """Return the groups that count the node; none for one that is unknown or being deleted."""
        return self._places.get(node, NOWHERE).groups

    def _count(self, name: str, place: NodePlace, by: int) -> None:
        for group in place.groups:
            count = self._counts.setdefault(group, GroupCount())
            count.nodes += by
            count.unhealthy += by * place.unhealthy
            (count.names.add if by > 0 else count.names.discard)(name)
            if not count.nodes:
                del self._counts[group]


def _place(node: Node | None) -> NodePlace:
    if node is None or node.metadata.deletion_timestamp is not None:
        return NOWHERE
    return _place_in(tuple(groups_of(node)), is_ready(node) is not True)


@lru_cache(maxsize=4096)
def _place_in(groups: tuple[Group, ...], unhealthy: bool) -> NodePlace:
    """Return one shared object for all nodes of the same groups."""
    return NodePlace(groups, unhealthy)
