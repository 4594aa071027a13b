"""Carry out one act of a Machine. Each act is idempotent.

Writes carry the resourceVersion and uid on which the decision is based. A concurrent change causes
a conflict, and the next run observes it (F29).
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinework import ChangeClass
from kubenode.api.v1alpha1.permit import Holder, Operation
from kubenode.runtime.clock import Clock
from kubenode.runtime.disruption.guard import DisruptionGuard, stored
from kubenode.runtime.disruption.request import ActRefused
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Decode, Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.objects import Node
from machine.access import PLURAL
from machine.disruption.port import UNNEEDED, DisruptionRequest, DisruptionService
from machine.machine import nodesync
from machine.machine.deletion import keeps_permit, stage_of
from machine.machine.instances import InstanceAccess
from machine.machine.leave import live_target, replacement_request
from machine.machine.model import FINALIZER, SOON, ActResult, MachineAct, MachineObservation
from machine.machine.step import plan_of
from machine.names import LEASES, LEAVING

log = logging.getLogger(__name__)

UNINSTALL_WITHIN = timedelta(hours=1)
"""Time after the writing of the permit in which the agent may begin to remove components.

The permit is written again while components are left.
"""


@dataclass(frozen=True, slots=True)
class MachineActs:
    """The acts on Machines.

    decode: decodes the responses to writes of Machines.
    """

    kube: Kube
    disruptions: DisruptionService
    instances: InstanceAccess
    clock: Clock
    guard: DisruptionGuard
    decode: Decode[Machine] = Machine.from_server

    async def do(
        self, act: MachineAct, observation: MachineObservation
    ) -> tuple[Machine | None, ActResult]:
        """Carry out the act. Return the Machine after it, None if its finalizer is removed, and the
        result.
        """
        machine = observation.machine
        result = ActResult(act, prepared=observation.act_result.prepared)
        match act:
            case MachineAct.ADD_FINALIZER:
                return await self._finalizer(machine, on=True), result
            case MachineAct.REMOVE_FINALIZER:
                if (
                    observation.provision
                ):  # no agent renews the Lease any more, and names are not reused
                    await self._delete(paths.lease(LEASES, machine.metadata.name))
                await self._finalizer(machine, on=False)
                return None, result
            case MachineAct.ADOPT:
                return await self._spec(machine, _adopted(observation)), result
            case MachineAct.UNINSTALL:
                return await self._uninstall(observation), result
            case MachineAct.SYNC:
                planned = plan_of(observation)
                assert planned is not None and observation.node is not None
                await self._node(observation.node, planned.body)
            case MachineAct.RELEASE:
                assert observation.node is not None
                body = nodesync.release(observation.node, machine.metadata.name)
                await self._node(observation.node, body)
            case MachineAct.DELETE_NODE:
                assert observation.node is not None
                await self._delete(
                    paths.node(observation.node.metadata.name), observation.node.metadata.uid
                )
            case MachineAct.REPLACE:
                return machine, await self._replace(observation)
            case MachineAct.PREPARE:
                prepared = await self.disruptions.prepare(wish_of(observation))
                return machine, ActResult(act, prepared=prepared)
            case MachineAct.END:
                node = machine.node_name if observation.expects_node else None
                done = await self.disruptions.end(node, holder_of(machine))
                return machine, replace(result, done=done)
            case MachineAct.CREATE:
                return machine, await self.instances.create(machine)
            case MachineAct.TERMINATE:
                gone = await self.instances.terminate(observation)
                return machine, replace(gone, prepared=result.prepared)
            case MachineAct.OPERATE:
                assert machine.spec.operation is not None
                return machine, await self.instances.operate(observation, machine.spec.operation)
            case MachineAct.NONE:
                pass
        return machine, result

    async def _finalizer(self, machine: Machine, *, on: bool) -> Machine | None:
        """Add or remove our finalizer; other finalizers stay."""
        others = [each for each in machine.metadata.finalizers if each != FINALIZER]
        finalizers = [*others, FINALIZER] if on else others
        try:
            return await self._patch(machine, {"finalizers": finalizers})
        except NotFound:
            if on:
                raise
            return None

    async def _spec(self, machine: Machine, spec: Mapping[str, Any]) -> Machine:
        return await self._patch(machine, {}, spec)

    async def _patch(
        self,
        machine: Machine,
        metadata: Mapping[str, Any],
        spec: Mapping[str, Any] | None = None,
    ) -> Machine:
        meta = machine.metadata
        version = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        body: dict[str, Any] = {"metadata": {**metadata, **version}}
        if spec:
            body["spec"] = spec
        path = paths.custom(PLURAL, meta.name)
        return await self.kube.patch(path, body, decode=self.decode)

    async def _node(self, node: Node, body: Mapping[str, Any]) -> None:
        meta = node.metadata
        version = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        metadata = {**body.get("metadata", {}), **version}
        await self.kube.patch(paths.node(meta.name), {**body, "metadata": metadata})

    async def _delete(self, path: str, uid: str | None = None) -> None:
        try:
            await self.kube.delete(path, uid=uid)
        except NotFound:
            return

    async def _replace(self, observation: MachineObservation) -> ActResult:
        """Delete the Machine for a job that asked for a replacement."""
        meta, request = observation.machine.metadata, replacement_request(observation)
        try:
            await self.guard.perform(
                request,
                intent=stored,  # `lastOperation` says Running
                target=lambda: live_target(self.kube, observation, request),
                act=lambda: self._delete(paths.custom(PLURAL, meta.name), meta.uid),
            )
        except ActRefused as refused:
            log.warning("replacement is refused", extra={"machine": meta.name, "why": str(refused)})
            return ActResult(again=SOON)
        return ActResult(MachineAct.REPLACE)

    async def _uninstall(self, observation: MachineObservation) -> Machine:
        """Set all components to Absent and permit the removal. Do nothing if that is in force
        already.
        """
        machine, now = observation.machine, self.clock.now()
        spec = machine.spec
        lasts = spec.permit is not None and spec.permit.start_before > now
        if lasts and all(component.desired_state == "Absent" for component in spec.components):
            return machine
        change = {
            "components": [_absent(component.to_dict()) for component in spec.components],
            "permit": {
                "name": _permit(observation),
                "components": [component.name for component in spec.components],
                "maxDisruption": str(ChangeClass.REBOOT),
                "startBefore": format_time(now + UNINSTALL_WITHIN),
            },
        }
        return await self._spec(machine, change)


def holder_of(machine: Machine) -> Holder:
    return Holder(kind=machine.kind, name=machine.metadata.name, uid=machine.metadata.uid)


def wish_of(observation: MachineObservation) -> DisruptionRequest:
    """Return the disruption request for the deletion.

    It has the operation that the set recorded in its annotation, so that the permit stays the same.
    """
    machine = observation.machine
    begun = machine.metadata.annotations.get(LEAVING, "")
    operation = Operation(begun) if begun in set(Operation) else Operation.DELETE
    return DisruptionRequest(
        node=machine.node_name if observation.expects_node and not observation.conflict else None,
        holder=holder_of(machine),
        operation=operation,
        class_=ChangeClass.REBOOT if observation.provision else ChangeClass.DRAIN,
        begun=keeps_permit(observation, stage_of(observation)),
        drain_timeout=machine.spec.deletion.drain_timeout,
    )


def _adopted(observation: MachineObservation) -> dict[str, Any]:
    instance, spec = observation.instance.instance, observation.machine.spec
    assert instance is not None
    change: dict[str, Any] = {}
    if not spec.provider_id:
        change["providerID"] = instance.provider_id
    if instance.addresses and not spec.addresses:
        change["addresses"] = list(instance.addresses[:16])
    return change


def _permit(observation: MachineObservation) -> str:
    prepared = observation.act_result.prepared
    return prepared.permit if prepared is not None and prepared.permit else UNNEEDED


def _absent(component: dict[str, Any]) -> dict[str, Any]:
    """Return the component as Absent with a new attempt, so that earlier reports do not count."""
    if component.get("desiredState") == "Absent":
        return component
    return {**component, "desiredState": "Absent", "attempt": component.get("attempt", 1) + 1}
