"""How many nodes of a zone, rack, pool and of the cluster are unhealthy: counted, never scanned.

A node counts as unhealthy while its Ready condition is anything but True; a node that is being
deleted counts in no group. A node without a group's label belongs to no such group, and a group of
nobody is not unhealthy: its ratio is 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kubenode.runtime.kube.objects import Node

GROUP_LABELS = {
    "zone": "topology.kubernetes.io/zone",
    "rack": "kubenode.io/rack",
    "pool": "kubenode.io/pool",
}
Group = tuple[str, str]
"""Scope and value, such as ("zone", "b"); ("cluster", "") is everything."""
CLUSTER: Group = ("cluster", "")


@dataclass(slots=True)
class Count:
    nodes: int = 0
    unhealthy: int = 0


NOBODY = Count()


def is_ready(node: Node) -> bool | None:
    """None when there is no Ready condition or nobody heard from it: neither yes nor no."""
    status = next((c.status for c in node.status.conditions if c.type == "Ready"), "")
    return {"True": True, "False": False}.get(status)


def groups_of(node: Node) -> Iterator[Group]:
    yield CLUSTER
    for scope, label in GROUP_LABELS.items():
        if value := node.metadata.labels.get(label):
            yield scope, value


class Fleet:
    def __init__(self) -> None:
        self._counts: dict[Group, Count] = {}

    def changed(self, old: Node | None, new: Node | None) -> bool:
        """Count a change; whether any figure moved."""
        before, after = _place(old), _place(new)
        if before == after:
            return False
        self._add(before, -1)
        self._add(after, 1)
        return True

    def count(self, group: Group) -> Count:
        return self._counts.get(group, NOBODY)

    def _add(self, place: "_Place", by: int) -> None:
        groups, unhealthy = place
        for group in groups:
            count = self._counts.setdefault(group, Count())
            count.nodes += by
            count.unhealthy += by * unhealthy
            if not count.nodes:
                del self._counts[group]


_Place = tuple[tuple[Group, ...], int]


def _place(node: Node | None) -> _Place:
    if node is None or node.metadata.deletion_timestamp is not None:
        return (), 0
    return tuple(groups_of(node)), int(is_ready(node) is not True)
