"""Conditions NodeReady and NodeSynced of a Machine. Pure."""

from kubenode.api.conditions import ConditionUpdate
from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from machine.machine.model import MachineObservation
from machine.machine.nodesync import NodePatch

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
KUBELET = "kubelet"
REFUSED = "Unauthorized"
"""How a kubelet logs that the API server does not accept its bootstrap token."""
TOKEN_REMEDY = (
    "the API server refuses the bootstrap token of its kubelet, which has expired or was replaced:"
    " run `kubenode machine import` again, which writes the present one to the host"
)
LONGEST = 1024
"""Maximum number of characters of a message that contains a log."""
LABEL_CONFLICT, DRIFT_FIGHT = "LabelConflict", "DriftFight"


def node_ready(observation: MachineObservation) -> ConditionUpdate | None:
    """Return condition NodeReady, None to leave it as it is."""
    if not observation.expects_node or observation.deleting:
        return None
    name = observation.machine.node_name
    if observation.conflict:
        return ConditionUpdate(FALSE, "NodeConflict", observation.conflict)
    if observation.node is None:
        return ConditionUpdate(FALSE, "Waiting", _describe_missing_node(observation.machine))
    if observation.node.is_ready:
        return ConditionUpdate(TRUE, "Ready", f"Node {name} is Ready")
    ready = observation.node.ready_condition
    unknown = ready is None or ready.status == "Unknown"
    return ConditionUpdate(UNKNOWN if unknown else FALSE, "NotReady", f"Node {name} is not Ready")


def _describe_missing_node(machine: Machine) -> str:
    """Return that the Machine has no Node. With `node: Join`, also how far its kubelet has come."""
    missing = f"there is no Node {machine.node_name}"
    if not machine.joins_by_token:
        return missing
    return f"{missing}: {_describe_kubelet(machine)}"[:LONGEST]


def _describe_kubelet(machine: Machine) -> str:
    """Return how far the kubelet has come, with its log if its agent reports it as unhealthy."""
    status = next((c for c in machine.status.components if c.name == KUBELET), None)
    log = status.message if status is not None else ""
    report = f"; the agent reports: {log}" if log else "; see its journal"
    bootstrap = machine.status.bootstrap
    kubelet = None if bootstrap is None else bootstrap.kubelet
    if kubelet is not None and kubelet.certificate_expires_at is not None:
        return f"its kubelet has a certificate and has not registered{report}"
    if status is None:
        return "no component has started a kubelet that requests a certificate"
    if REFUSED in log:
        return f"{TOKEN_REMEDY}{report}"
    return f"its kubelet is {status.state} and has no certificate{report}"


def node_synced(observation: MachineObservation, plan: NodePatch | None) -> ConditionUpdate | None:
    """Return condition NodeSynced, None to leave it as it is. Without a plan nothing is synced."""
    if plan is None or observation.deleting:
        return None
    if observation.fighting:
        keys = ", ".join(observation.fighting)
        return ConditionUpdate(
            FALSE, DRIFT_FIGHT, f"another writer keeps changing {keys}: change one of both"
        )
    if gave_up(observation):
        return None
    if plan.conflicts:
        return ConditionUpdate(FALSE, LABEL_CONFLICT, "; ".join(plan.conflicts)[:1024])
    if plan.body:
        return ConditionUpdate(FALSE, "Syncing", "labels and taints are being written")
    return ConditionUpdate(
        TRUE, "Synced", "its Node has the labels and taints of spec.nodeTemplate"
    )


def gave_up(observation: MachineObservation) -> bool:
    """Return whether we ceased to correct the Node, because another writer keeps changing it.

    A change of the Machine's spec starts the correction again.
    """
    known, generation = (
        observation.known(MachineConditionType.NODE_SYNCED),
        observation.machine.metadata.generation,
    )
    if known is None or known.reason != DRIFT_FIGHT:
        return False
    return known.observed_generation == generation
