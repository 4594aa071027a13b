"""Evidence about a node that is not Ready: it is over when the node is Ready, and no sooner. Pure.

A kubelet that was silent and is back says first that its node is not ready. Evidence that asks for
a silent one (Ready Unknown, an old Lease, a message) is false by then, and nothing is healed.
"""

from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.leaves import ConditionLeaf, FactLeaf

READY = ConditionLeaf(type="Ready")
READINESS = frozenset({"node.ready", "node.notReadyFor", "node.leaseAge"})
"""Facts about the kubelet that says whether a node is Ready."""


def about_readiness(when: Expression) -> bool:
    """Whether the evidence speaks of a node that is not Ready, or that may soon be not."""
    return any(
        leaf.type == READY.type and leaf.status is not READY.status
        if isinstance(leaf, ConditionLeaf)
        else isinstance(leaf, FactLeaf) and leaf.name in READINESS
        for leaf in when.leaves()
    )
