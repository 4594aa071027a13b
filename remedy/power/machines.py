"""Replaces a machine through our own Machine: the job requests an operation, and the MachineSet
does it.

A Machine that a provider created for a MachineSet is deleted and another created; one that was
imported, or belongs to no set, is left alone, since it would not be replaced. The job has drained
the node, and the set acts under the job's permit.

A set numbers its Machines. The highest number before the request is recorded with it, and only a
Machine with a higher number counts as the new one.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from kubenode.api.machinenames import number_of
from kubenode.api.meta import ObjectMeta, OwnerReference
from kubenode.api.v1alpha1 import Machine, MachineSet
from kubenode.api.v1alpha1.ladder import ReplacePath
from kubenode.api.v1alpha1.machine import MachineMode, MachineOrigin
from kubenode.api.v1alpha1.machinestatus import OperationState
from kubenode.api.v1alpha1.machinework import MachineOperation, MachineOperationType
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, NotFound, Undecodable
from kubenode.runtime.kube.lists import RecentList, raw_items
from kubenode.runtime.kube.objects import Node
from remedy.job.model import JobActResult
from remedy.job.steps.replace import ReplaceAct
from remedy.machines import MACHINES, machines_named
from remedy.power.methods import (
    CLOCKS,
    RECENT_SECONDS,
    NodeCache,
    ReplacementRequest,
    ReplacementTarget,
    is_taken,
    taken,
    to_failed_result,
)
from remedy.power.observation import ReplacementObservation, RequestOutcome

SET = MachineSet.resource.kind


class _MachineOwner(msgspec.Struct):
    kind: str
    name: str
    uid: str
    controller: bool = False


class _MachineMeta(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    creation_timestamp: datetime
    owner_references: list[_MachineOwner] = []


class _NodeRef(msgspec.Struct):
    name: str


class _Operation(msgspec.Struct):
    id: str
    state: OperationState
    code: str = ""


class _MachineStatus(msgspec.Struct, rename="camel"):
    node_ref: _NodeRef | None = None
    last_operation: _Operation | None = None


class _Brief(msgspec.Struct):
    """The fields of a Machine that are compared: a cluster may have ten thousand Machines."""

    metadata: _MachineMeta
    status: _MachineStatus = msgspec.field(default_factory=_MachineStatus)


_decode = msgspec.json.Decoder(_Brief).decode


class OwnMachine:
    name = ReplacePath.MACHINE

    def __init__(self, kube: Kube, nodes: NodeCache) -> None:
        self._kube, self._nodes = kube, nodes
        self._recent = RecentList(kube, _decode, RECENT_SECONDS)

    async def find(self, node: Node) -> ReplacementTarget | str:
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
        highest = max(_numbers(await self._all(), group), default=0)
        return ReplacementTarget(f"{name}/{machine.metadata.uid}/{highest}", group)

    async def ask(self, request: ReplacementRequest) -> JobActResult:
        name, uid, _ = _target(request)
        try:
            machine = await self._read(name)
            if machine is None or machine.metadata.uid != uid:
                return taken()  # it is gone, as requested
            if (other := _describe_running(machine, request)) != "":
                return JobActResult(ReplaceAct.REPLACE, outcome=RequestOutcome.LATER, error=other)
            await self._kube.patch(f"{MACHINES}/{name}", _wanted(machine, request))
        except NotFound:
            return taken()
        except KubeError as error:
            return to_failed_result(error)
        return taken()

    async def far(self, request: ReplacementRequest) -> ReplacementObservation:
        """Return the progress. Machines are listed only when the old one is gone, once for all
        waiting jobs.
        """
        name, uid, _ = _target(request)
        old = await self._brief(name, uid)
        listed = await self._recent.get(MACHINES) if old is None else []
        new = [m for m in listed if m.metadata.uid != uid and _made_for(m, request)]
        new = [m for m in new if not is_taken(self._nodes.get(_node_of(m)), request)]
        ready = tuple(node for node in map(_node_of, new) if node and self._ready(node))
        last = old.status.last_operation if old is not None else None
        if (
            last is not None
            and last.id == request.operation
            and last.state is OperationState.FAILED
        ):
            why = f"Machine {name} cannot be replaced: {last.code}"
            return ReplacementObservation(
                self.name, request.target, request.group, outcome=RequestOutcome.REFUSED, why=why
            )
        why = f"Machine {name} is not gone yet"
        if old is None:
            why = "the new node is not Ready" if new else f"{request.group} has no new Machine yet"
        gone = old is None
        return ReplacementObservation(
            self.name,
            request.target,
            request.group,
            gone=gone,
            new=next(iter(ready), ""),
            candidates=ready,
            why=why,
        )

    async def _all(self) -> list[_Brief]:
        """Return every current Machine. Raises KubeError, also for one that cannot be decoded,
        since it may have the highest number.
        """
        machines = []
        async for raw in raw_items(self._kube, MACHINES):
            try:
                machines.append(_decode(raw))
            except ValueError as error:
                text = f"a Machine cannot be read: {error}"
                raise Undecodable(200, "", text, tried=f"GET {MACHINES}") from error
        return machines

    async def _brief(self, name: str, uid: str) -> _Brief | None:
        """Return the Machine; None if it is gone or has another uid."""
        try:
            machine = await self._kube.get(f"{MACHINES}/{name}", _decode)
        except NotFound:
            return None
        return machine if machine.metadata.uid == uid else None

    async def _of(self, node: Node) -> Machine | None:
        """Return the Machine of this node; None for none."""
        machines = await machines_named(self._kube, node.metadata.name)
        return next((machine for machine in machines if _is_of(machine, node)), None)

    async def _read(self, name: str) -> Machine | None:
        try:
            return await self._kube.get(f"{MACHINES}/{name}", Machine.from_server)
        except NotFound:
            return None

    def _ready(self, name: str) -> bool:
        node = self._nodes.get(name)
        return node is not None and node.is_ready


def _is_of(machine: Machine, node: Node) -> bool:
    node_ref = machine.status.node_ref
    return node_ref is None or node_ref.uid in ("", node.metadata.uid)


def _set_of(machine: Machine | _Brief) -> str:
    owner = _owner(machine)
    return f"{SET} {owner.name}" if owner is not None else ""


def _owner(machine: Machine | _Brief) -> OwnerReference | _MachineOwner | None:
    """Return the set that controls the Machine; None for none."""
    owners: Iterable[OwnerReference | _MachineOwner] = machine.metadata.owner_references
    return next((o for o in owners if o.controller and o.kind == SET), None)


def _number(machine: _Brief) -> int:
    """Return the Machine's number in its set; 0 if its set did not name it."""
    owner = _owner(machine)
    if owner is None:
        return 0
    return number_of(ObjectMeta(name=owner.name, uid=owner.uid), machine.metadata.name)


def _numbers(machines: Iterable[_Brief], group: str) -> Iterable[int]:
    return (_number(machine) for machine in machines if _set_of(machine) == group)


def _made_for(machine: _Brief, request: ReplacementRequest) -> bool:
    if _set_of(machine) != request.group:
        return False
    _, _, highest = _target(request)
    if highest is None:
        return machine.metadata.creation_timestamp >= request.at - CLOCKS
    return _number(machine) > highest


def _target(request: ReplacementRequest) -> tuple[str, str, int | None]:
    """Return name and uid of the Machine, and the highest number of its set at the request; None:
    the request is from a version without numbers.
    """
    name, uid, *highest = request.target.split("/")
    return name, uid, int(highest[0]) if highest else None


def _node_of(machine: _Brief) -> str:
    return machine.status.node_ref.name if machine.status.node_ref is not None else ""


def _describe_running(machine: Machine, request: ReplacementRequest) -> str:
    """Return why another job's operation is still running; "" for none."""
    wanted, last = machine.spec.operation, machine.status.last_operation
    if wanted is None or wanted.id == request.operation:
        return ""
    ended = last is not None and last.id == wanted.id and last.state is not OperationState.RUNNING
    return "" if ended else f"operation {wanted.id} of Machine {machine.metadata.name} is under way"


def _wanted(machine: Machine, request: ReplacementRequest) -> dict[str, Any]:
    operation = MachineOperation(
        id=request.operation, type=MachineOperationType.REPLACE, permit=request.permit
    )
    meta = machine.metadata
    return {
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "spec": {"operation": operation.to_dict()},
    }
