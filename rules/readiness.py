"""Evidence about a node that is not Ready: it is cleared when the node is Ready. Pure.

A silent kubelet that returns first reports its node as not ready. Evidence of silence (Ready
Unknown, an old Lease, a message) is false by then, though the node is not healed.
"""

from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.leaves import ConditionLeaf, FactLeaf

READY = ConditionLeaf(type="Ready")
READINESS = frozenset({"node.ready", "node.notReadyFor", "node.leaseAge"})
"""Facts about the kubelet that shows whether a node is Ready."""


def about_readiness(when: Expression) -> bool:
    """Return whether the evidence is about a node that is not Ready or may soon not be."""
    return any(
        leaf.type == READY.type and leaf.status is not READY.status
        if isinstance(leaf, ConditionLeaf)
        else isinstance(leaf, FactLeaf) and leaf.name in READINESS
        for leaf in when.leaves()
    )
