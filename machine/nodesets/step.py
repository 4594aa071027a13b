"""Decide about a Node that carries the label of a NodeClass. Pure.

- A Node that somebody creates gets a Machine of its class, under the Node's name.
- A Node that somebody deletes stays, by a finalizer, until its machine is gone. Its Machine is
  removed under a permit of Kube Defender.

Source: https://github.com/kube-node/nodeset, proposal.md, NodeController.
"""

from dataclasses import dataclass
from enum import StrEnum

from kubenode.api.v1alpha1 import Machine, NodeClass
from kubenode.api.v1alpha1.machine import MachineOrigin
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from kubenode.runtime.kube.objects import Node
from machine.machine.deletion import DeletionStage
from machine.names import NODE_CLASS

FINALIZER = "kubenode.io/node-class"
"""Finalizer of a Node: it stays until the instance of its Machine is gone."""


class NodeAct(StrEnum):
    NONE = "None"
    ADD_FINALIZER = "AddFinalizer"
    CREATE_MACHINE = "CreateMachine"
    REMOVE_MACHINE = "RemoveMachine"
    REMOVE_FINALIZER = "RemoveFinalizer"


@dataclass(frozen=True, slots=True)
class NodeClaim:
    """What is known of a Node.

    node_class: the NodeClass that its label names, None if there is none.
    machine: the Machine of the Node, None if there is none.
    """

    node: Node
    node_class: NodeClass | None
    machine: Machine | None


@dataclass(frozen=True, slots=True)
class NodeDecision:
    """The next act. reason, message: why a person must act; "" if nobody must."""

    act: NodeAct = NodeAct.NONE
    reason: str = ""
    message: str = ""


def step(claim: NodeClaim) -> NodeDecision:
    """Return the next act for the Node."""
    meta = claim.node.metadata
    guarded = FINALIZER in meta.finalizers
    if meta.deletion_timestamp is not None:
        return NodeDecision(_give_up(claim) if guarded else NodeAct.NONE)
    if NODE_CLASS not in meta.labels:
        return NodeDecision(NodeAct.REMOVE_FINALIZER if guarded else NodeAct.NONE)
    if why := _blocked(claim):
        return why
    if not guarded:
        return NodeDecision(NodeAct.ADD_FINALIZER)
    return NodeDecision(NodeAct.NONE if claim.machine is not None else NodeAct.CREATE_MACHINE)


def _blocked(claim: NodeClaim) -> NodeDecision | None:
    """Return why the Node is left alone, None if it is not."""
    name, label = claim.node.metadata.name, claim.node.metadata.labels[NODE_CLASS]
    if claim.node_class is None:
        return NodeDecision(reason="NodeClassMissing", message=f"there is no NodeClass {label}")
    if claim.machine is None and is_registered(claim.node):
        message = f"Node {name} has a host already: import it, or remove label {NODE_CLASS}"
        return NodeDecision(reason="AlreadyRegistered", message=message)
    if claim.machine is not None and not is_provisioned(claim):
        message = f"Machine {claim.machine.metadata.name} was not made for Node {name}"
        return NodeDecision(
            reason="ForeignMachine", message=f"{message}: remove label {NODE_CLASS}"
        )
    return None


def _give_up(claim: NodeClaim) -> NodeAct:
    """Return the next act for a Node that is being deleted."""
    machine = claim.machine
    if machine is None or not is_provisioned(claim):
        return NodeAct.REMOVE_FINALIZER
    if machine.metadata.deletion_timestamp is None:
        return NodeAct.REMOVE_MACHINE
    return NodeAct.REMOVE_FINALIZER if is_released(machine) else NodeAct.NONE


def is_registered(node: Node) -> bool:
    """Return whether a kubelet or a cloud knows a host of this Node."""
    return bool(node.spec.provider_id or node.status.node_info.kubelet_version)


def is_provisioned(claim: NodeClaim) -> bool:
    """Return whether the Machine was made by a provider and is the one behind the Node."""
    if claim.machine is None or claim.machine.spec.origin is not MachineOrigin.PROVISION:
        return False
    ours, theirs = claim.machine.spec.provider_id, claim.node.spec.provider_id
    return not (ours and theirs and ours != theirs)


def is_released(machine: Machine) -> bool:
    """Return whether the instance of a Machine that is being deleted is gone."""
    known = machine.status.condition(MachineConditionType.DELETABLE)
    return known is not None and known.reason == DeletionStage.RELEASING
