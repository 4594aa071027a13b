"""Caches that may be stale while the Node's cache is fresh. Pure.

Large clusters keep Events in an etcd of their own. While a source is stale, only its leaves are
unknown, not what the Node itself reports.
"""

from collections.abc import Iterable

from kubenode.api.v1alpha1.hostevent import HostEventClass
from kubenode.api.v1alpha1.leaves import (
    AbsentLeaf,
    AlertLeaf,
    EventLeaf,
    FactLeaf,
    HostEventLeaf,
    Leaf,
)
from rules.builtin import MAINTENANCE_UNTIL
from rules.facts import FactSet

EVENTS, HOST_EVENTS = "Events", "HostEvents"
_CLASSES = frozenset(HostEventClass)


def sources_of(leaf: Leaf | AbsentLeaf) -> frozenset[str]:
    """Return the sources that a leaf reads besides the Node."""
    match leaf:
        case AbsentLeaf():
            return sources_of(leaf.leaf)
        case HostEventLeaf() | AlertLeaf() | FactLeaf(name="maintenance.active"):
            return frozenset({HOST_EVENTS})
        case FactLeaf(name="node.unreadWarnings"):
            return frozenset({EVENTS})
        case EventLeaf():
            # HostEvents are Events of a node too, with their class as reason.
            both = leaf.reason is None or leaf.reason in _CLASSES
            return frozenset({EVENTS, HOST_EVENTS} if both else {EVENTS})
        case _:
            return frozenset()


def stale_source(leaf: Leaf | AbsentLeaf, facts: FactSet) -> str:
    """Return the stale source that makes the leaf unknown; "" if there is none."""
    if not facts.stale:
        return ""
    candidates = sources_of(leaf) & facts.stale
    if isinstance(leaf, FactLeaf) and MAINTENANCE_UNTIL in facts.annotations:
        return "" if facts.values.get(leaf.name) is True else min(candidates, default="")
    return min(candidates, default="")


def waits_for_source(leaves: Iterable[Leaf | AbsentLeaf], facts: FactSet) -> str:
    """Return the first stale source that one of the leaves reads; "" if there is none."""
    return next((source for leaf in leaves if (source := stale_source(leaf, facts))), "")
