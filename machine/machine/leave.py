"""Requests to the disruption guard for deleting, operating or replacing an instance."""

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


def deletion_request(observation: MachineObservation) -> ActRequest:
    """Return the request to delete the instance, under the permit of the Machine or of the job.

    The job's permit applies if the Machine is replaced for a job.
    """
    machine = observation.machine
    node = machine.node_name if _has_node(observation) else ""
    permit, holder = UNNEEDED, ""
    if node and replaces(observation):
        assert machine.spec.operation is not None
        permit = machine.spec.operation.permit
    elif node:
        prepared = observation.act_result.prepared
        permit, holder = ("" if prepared is None else prepared.permit), machine.metadata.uid
    if permit == UNNEEDED:
        node = ""  # no permit was requested, as the API server has no such Node
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


def operation_request(observation: MachineObservation) -> ActRequest:
    """Return the request for the operation that a job wrote to `spec.operation`."""
    return _of_operation(observation, DisruptiveAct.RESET)


def replacement_request(observation: MachineObservation) -> ActRequest:
    """Return the request to delete the Machine for a job that asked for a replacement."""
    return _of_operation(observation, DisruptiveAct.REPLACE)


def _of_operation(observation: MachineObservation, act: DisruptiveAct) -> ActRequest:
    machine, wanted = observation.machine, observation.machine.spec.operation
    assert wanted is not None
    has_node = _has_node(observation)
    return ActRequest(
        act,
        target=machine.spec.provider_id,
        node=machine.node_name if has_node else "",
        who=f"Machine {machine.metadata.name}",
        request=wanted.id,
        permit=wanted.permit if has_node else UNNEEDED,
        evidence=f"{wanted.type} for {wanted.id}",
    )


def _has_node(observation: MachineObservation) -> bool:
    return observation.expects_node and not observation.conflict and observation.node is not None


async def live_target(
    kube: Kube, observation: MachineObservation, request: ActRequest
) -> LiveTarget:
    """Return whether the live Machine is still the one on which the decision is based.

    If the request names no Node, there must still be none. Raises KubeError.
    """
    machine = observation.machine
    name, live = machine.metadata.name, await MachineAccess(kube).read(machine.metadata.name)
    if live is None or live.metadata.uid != machine.metadata.uid:
        return LiveTarget(f"Machine {name} is gone, or another one by now")
    if live.spec.provider_id != machine.spec.provider_id:
        return LiveTarget(f"the instance of Machine {name} is another one by now")
    if live.spec.mode is not machine.spec.mode:
        return LiveTarget(f"Machine {name} is in mode {live.spec.mode} by now")
    if not request.node and observation.expects_node and not observation.conflict:
        return LiveTarget(await _came(kube, machine))
    return LiveTarget()


async def _came(kube: Kube, machine: Machine) -> str:
    """Return the message that a Node has appeared, "" if none has."""
    try:
        node = await kube.get(paths.node(machine.node_name), _node)
    except NotFound:
        return ""
    ours, theirs = machine.spec.provider_id, node.spec.provider_id
    other = ours and theirs and ours != theirs
    return "" if other else f"Node {machine.node_name} is there by now"
