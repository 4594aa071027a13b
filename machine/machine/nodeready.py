"""Conditions NodeReady and NodeSynced: whether its Node is there, and as it wants it. Pure."""

from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from machine.bootstrap.agentready import Said
from machine.machine.model import Seen
from machine.machine.nodesync import Plan

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
LABEL_CONFLICT, DRIFT_FIGHT = "LabelConflict", "DriftFight"


def node_ready(seen: Seen) -> Said | None:
    if not seen.expects_node or seen.deleting:
        return None
    name = seen.machine.node_name
    if seen.conflict:
        return Said(FALSE, "NodeConflict", seen.conflict)
    if seen.node is None:
        return Said(FALSE, "Waiting", f"there is no Node {name}")
    if seen.node.is_ready:
        return Said(TRUE, "Ready", f"Node {name} is Ready")
    ready = seen.node.ready_condition
    unknown = ready is None or ready.status == "Unknown"
    return Said(UNKNOWN if unknown else FALSE, "NotReady", f"Node {name} is not Ready")


def node_synced(seen: Seen, plan: Plan | None) -> Said | None:
    """`plan` None: nothing is synced yet, or ever."""
    if plan is None or seen.deleting:
        return None
    if seen.fighting:
        keys = ", ".join(seen.fighting)
        return Said(FALSE, DRIFT_FIGHT, f"another writer keeps changing {keys}: change one of both")
    if gave_up(seen):
        return None
    if plan.conflicts:
        return Said(FALSE, LABEL_CONFLICT, "; ".join(plan.conflicts)[:1024])
    if plan.body:
        return Said(FALSE, "Syncing", "labels and taints are being written")
    return Said(TRUE, "Synced", "its Node has the labels and taints of spec.nodeTemplate")


def gave_up(seen: Seen) -> bool:
    """Whether another writer was left to win, until somebody changes what is wanted."""
    known, generation = (
        seen.known(MachineConditionType.NODE_SYNCED),
        seen.machine.metadata.generation,
    )
    if known is None or known.reason != DRIFT_FIGHT:
        return False
    return known.observed_generation == generation
