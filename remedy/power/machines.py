"""Replace through our own Machine: it says which operation a job wants, and its set does it.

A Machine that a provider made for a MachineSet is given up and another made; one that was imported,
or that nobody made, is left alone: nobody would make another. The node was drained by the job, and
the set acts under the job's permit.
"""

from typing import Any

from kubenode.api.v1alpha1 import Machine, MachineSet
from kubenode.api.v1alpha1.ladder import ReplacePath
from kubenode.api.v1alpha1.machine import MachineMode, MachineOrigin
from kubenode.api.v1alpha1.machinestatus import OperationState
from kubenode.api.v1alpha1.machinework import MachineOperation, MachineOperationType
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, NotFound
from kubenode.runtime.kube.objects import Node
from remedy.job.model import Act, Heard
from remedy.machines import MACHINES, machines_in, machines_named
from remedy.power.seen import Outcome, ReplaceSeen
from remedy.power.ways import CLOCKS, Asked, Found, Nodes, heard, taken

SET = MachineSet.resource.kind


class OwnMachine:
    name = ReplacePath.MACHINE

    def __init__(self, kube: Kube, nodes: Nodes) -> None:
        self._kube, self._nodes = kube, nodes

    async def find(self, node: Node) -> Found | str:
        machine = await self._of(node)
        if machine is None:
            return "no Machine of kubenode.io stands for the node"
        name, spec = machine.metadata.name, machine.spec
        if spec.origin is not MachineOrigin.PROVISION or not spec.provider_id:
            return f"Machine {name} was not made by a provider"
        if spec.mode is not MachineMode.MANAGE:
            return f"Machine {name} is in mode {spec.mode}"
        group = _set_of(machine)
        if not group:
            return f"Machine {name} belongs to no MachineSet that would make another"
        return Found(f"{name}/{machine.metadata.uid}", group)

    async def ask(self, asked: Asked) -> Heard:
        name, uid = asked.target.split("/")
        if not asked.permit:
            return Heard(Act.REPLACE, outcome=Outcome.LATER, error="the job holds no permit")
        try:
            machine = await self._read(name)
            if machine is None or machine.metadata.uid != uid:
                return taken()  # gone is what was asked for
            if (other := _under_way(machine, asked)) != "":
                return Heard(Act.REPLACE, outcome=Outcome.LATER, error=other)
            await self._kube.patch(f"{MACHINES}/{name}", _wanted(machine, asked))
        except NotFound:
            return taken()
        except KubeError as error:
            return heard(error)
        return taken()

    async def far(self, asked: Asked) -> ReplaceSeen:
        name, uid = asked.target.split("/")
        found = await self._kube.get(MACHINES, machines_in)
        old = next((m for m in found if m.metadata.uid == uid), None)
        new = [m for m in found if m.metadata.uid != uid and _made_for(m, asked)]
        ready = next((node for node in map(_node_of, new) if node and self._ready(node)), "")
        last = old.status.last_operation if old is not None else None
        if last is not None and last.id == asked.operation and last.state is OperationState.FAILED:
            why = f"Machine {name} cannot be replaced: {last.code}"
            return ReplaceSeen(
                self.name, asked.target, asked.group, outcome=Outcome.REFUSED, why=why
            )
        why = f"Machine {name} is not gone yet"
        if old is None:
            why = "the new node is not Ready" if new else f"{asked.group} has no new Machine yet"
        gone = old is None
        return ReplaceSeen(self.name, asked.target, asked.group, gone=gone, new=ready, why=why)

    async def _of(self, node: Node) -> Machine | None:
        """The Machine that says it is this node's."""
        found = await machines_named(self._kube, node.metadata.name)
        return next((machine for machine in found if _is_of(machine, node)), None)

    async def _read(self, name: str) -> Machine | None:
        try:
            return await self._kube.get(f"{MACHINES}/{name}", Machine.from_server)
        except NotFound:
            return None

    def _ready(self, name: str) -> bool:
        node = self._nodes.get(name)
        return node is not None and node.is_ready


def _is_of(machine: Machine, node: Node) -> bool:
    seen = machine.status.node_ref
    return seen is None or seen.uid in ("", node.metadata.uid)


def _set_of(machine: Machine) -> str:
    owner = next((o for o in machine.metadata.owner_references if o.controller), None)
    return f"{SET} {owner.name}" if owner is not None and owner.kind == SET else ""


def _made_for(machine: Machine, asked: Asked) -> bool:
    born = machine.metadata.creation_timestamp
    return _set_of(machine) == asked.group and born is not None and born >= asked.at - CLOCKS


def _node_of(machine: Machine) -> str:
    return machine.status.node_ref.name if machine.status.node_ref is not None else ""


def _under_way(machine: Machine, asked: Asked) -> str:
    """Another job's operation that has no answer yet, "" for none."""
    wanted, last = machine.spec.operation, machine.status.last_operation
    if wanted is None or wanted.id == asked.operation:
        return ""
    over = last is not None and last.id == wanted.id and last.state is not OperationState.RUNNING
    return "" if over else f"operation {wanted.id} of Machine {machine.metadata.name} is under way"


def _wanted(machine: Machine, asked: Asked) -> dict[str, Any]:
    operation = MachineOperation(
        id=asked.operation, type=MachineOperationType.REPLACE, permit=asked.permit
    )
    meta = machine.metadata
    return {
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "spec": {"operation": operation.to_dict()},
    }
