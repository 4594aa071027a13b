"""Under which permit an instance is deleted, operated or given up: the request to the guard."""

from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.disruption.request import ActRequest, DisruptiveAct, LiveTarget
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.objects import Node, structs
from machine.access import MachineAccess
from machine.disruption.port import UNNEEDED
from machine.machine.model import MachineObservation
from machine.machine.operation import replaces

_node = structs(Node)


def deletion_request(seen: MachineObservation) -> ActRequest:
    """Of the instance, or of the Machine for the job that replaces it."""
    machine = seen.machine
    node = machine.node_name if _has_node(seen) else ""
    permit, holder = UNNEEDED, ""
    if node and replaces(seen):
        assert machine.spec.operation is not None
        permit = machine.spec.operation.permit
    elif node:
        prepared = seen.heard.prepared
        permit, holder = ("" if prepared is None else prepared.permit), machine.metadata.uid
    if permit == UNNEEDED:
        node = ""  # Kube Defender was not asked, as the API server has no such Node
    return ActRequest(
        DisruptiveAct.DELETE,
        target=machine.spec.provider_id or machine.metadata.name,
        node=node,
        who=f"Machine {machine.metadata.name}",
        request=machine.metadata.uid,
        permit=permit,
        holder_uid=holder,
        evidence="its Machine is given up",
    )


def operation_request(seen: MachineObservation) -> ActRequest:
    """Of what a job asks for in `spec.operation`."""
    return _of_operation(seen, DisruptiveAct.RESET)


def replacement_request(seen: MachineObservation) -> ActRequest:
    """Of the Machine's own deletion, where a job asks for another in its place."""
    return _of_operation(seen, DisruptiveAct.REPLACE)


def _of_operation(seen: MachineObservation, act: DisruptiveAct) -> ActRequest:
    machine, wanted = seen.machine, seen.machine.spec.operation
    assert wanted is not None
    has_node = _has_node(seen)
    return ActRequest(
        act,
        target=machine.spec.provider_id,
        node=machine.node_name if has_node else "",
        who=f"Machine {machine.metadata.name}",
        request=wanted.id,
        permit=wanted.permit if has_node else UNNEEDED,
        evidence=f"{wanted.type} for {wanted.id}",
    )


def _has_node(seen: MachineObservation) -> bool:
    return seen.expects_node and not seen.conflict and seen.node is not None


async def live_target(kube: Kube, seen: MachineObservation, request: ActRequest) -> LiveTarget:
    """Whether the Machine is as it was decided on, and has no Node where none is named.

    Raises KubeError.
    """
    machine = seen.machine
    name, live = machine.metadata.name, await MachineAccess(kube).read(machine.metadata.name)
    if live is None or live.metadata.uid != machine.metadata.uid:
        return LiveTarget(f"Machine {name} is gone, or another one by now")
    if live.spec.provider_id != machine.spec.provider_id:
        return LiveTarget(f"the instance of Machine {name} is another one by now")
    if live.spec.mode is not machine.spec.mode:
        return LiveTarget(f"Machine {name} is in mode {live.spec.mode} by now")
    if not request.node and seen.expects_node and not seen.conflict:
        return LiveTarget(await _came(kube, machine))
    return LiveTarget()


async def _came(kube: Kube, machine: Machine) -> str:
    """That a Node is there which nobody counted, "" for none."""
    try:
        node = await kube.get(paths.node(machine.node_name), _node)
    except NotFound:
        return ""
    ours, theirs = machine.spec.provider_id, node.spec.provider_id
    other = ours and theirs and ours != theirs
    return "" if other else f"Node {machine.node_name} is there by now"
