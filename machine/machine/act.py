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
        self, act: MachineAct, seen: MachineObservation
    ) -> tuple[Machine | None, ActResult]:
        """Carry out the act. Return the Machine after it, None if its finalizer is removed, and the
        result.
        """
        machine = seen.machine
        heard = ActResult(act, prepared=seen.heard.prepared)
        match act:
            case MachineAct.ADD_FINALIZER:
                return await self._finalizer(machine, on=True), heard
            case MachineAct.REMOVE_FINALIZER:
                if seen.provision:  # no agent renews the Lease any more, and names are not reused
                    await self._delete(paths.lease(LEASES, machine.metadata.name))
                await self._finalizer(machine, on=False)
                return None, heard
            case MachineAct.ADOPT:
                return await self._spec(machine, _adopted(seen)), heard
            case MachineAct.UNINSTALL:
                return await self._uninstall(seen), heard
            case MachineAct.SYNC:
                planned = plan_of(seen)
                assert planned is not None and seen.node is not None
                await self._node(seen.node, planned.body)
            case MachineAct.RELEASE:
                assert seen.node is not None
                body = nodesync.release(seen.node, machine.metadata.name)
                await self._node(seen.node, body)
            case MachineAct.DELETE_NODE:
                assert seen.node is not None
                await self._delete(paths.node(seen.node.metadata.name), seen.node.metadata.uid)
            case MachineAct.REPLACE:
                return machine, await self._replace(seen)
            case MachineAct.PREPARE:
                prepared = await self.disruptions.prepare(wish_of(seen))
                return machine, ActResult(act, prepared=prepared)
            case MachineAct.END:
                node = machine.node_name if seen.expects_node else None
                done = await self.disruptions.end(node, holder_of(machine))
                return machine, replace(heard, done=done)
            case MachineAct.CREATE:
                return machine, await self.instances.create(machine)
            case MachineAct.TERMINATE:
                gone = await self.instances.terminate(seen)
                return machine, replace(gone, prepared=heard.prepared)
            case MachineAct.OPERATE:
                assert machine.spec.operation is not None
                return machine, await self.instances.operate(seen, machine.spec.operation)
            case MachineAct.NONE:
                pass
        return machine, heard

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

    async def _replace(self, seen: MachineObservation) -> ActResult:
        """Delete the Machine for a job that asked for a replacement."""
        meta, request = seen.machine.metadata, replacement_request(seen)
        try:
            await self.guard.perform(
                request,
                intent=stored,  # `lastOperation` says Running
                target=lambda: live_target(self.kube, seen, request),
                act=lambda: self._delete(paths.custom(PLURAL, meta.name), meta.uid),
            )
        except ActRefused as refused:
            log.warning("replacement is refused", extra={"machine": meta.name, "why": str(refused)})
            return ActResult(again=SOON)
        return ActResult(MachineAct.REPLACE)

    async def _uninstall(self, seen: MachineObservation) -> Machine:
        """Set all components to Absent and permit the removal. Do nothing if that is in force
        already.
        """
        machine, now = seen.machine, self.clock.now()
        spec = machine.spec
        lasts = spec.permit is not None and spec.permit.start_before > now
        if lasts and all(one.desired_state == "Absent" for one in spec.components):
            return machine
        change = {
            "components": [_absent(one.to_dict()) for one in spec.components],
            "permit": {
                "name": _permit(seen),
                "components": [one.name for one in spec.components],
                "maxDisruption": str(ChangeClass.REBOOT),
                "startBefore": format_time(now + UNINSTALL_WITHIN),
            },
        }
        return await self._spec(machine, change)


def holder_of(machine: Machine) -> Holder:
    return Holder(kind=machine.kind, name=machine.metadata.name, uid=machine.metadata.uid)


def wish_of(seen: MachineObservation) -> DisruptionRequest:
    """Return the disruption request for the deletion.

    It has the operation that the set recorded in its annotation, so that the permit stays the same.
    """
    machine = seen.machine
    begun = machine.metadata.annotations.get(LEAVING, "")
    operation = Operation(begun) if begun in set(Operation) else Operation.DELETE
    return DisruptionRequest(
        node=machine.node_name if seen.expects_node and not seen.conflict else None,
        holder=holder_of(machine),
        operation=operation,
        class_=ChangeClass.REBOOT if seen.provision else ChangeClass.DRAIN,
        begun=keeps_permit(seen, stage_of(seen)),
        drain_timeout=machine.spec.deletion.drain_timeout,
    )


def _adopted(seen: MachineObservation) -> dict[str, Any]:
    found, spec = seen.instance.instance, seen.machine.spec
    assert found is not None
    change: dict[str, Any] = {}
    if not spec.provider_id:
        change["providerID"] = found.provider_id
    if found.addresses and not spec.addresses:
        change["addresses"] = list(found.addresses[:16])
    return change


def _permit(seen: MachineObservation) -> str:
    prepared = seen.heard.prepared
    return prepared.permit if prepared is not None and prepared.permit else UNNEEDED


def _absent(component: dict[str, Any]) -> dict[str, Any]:
    """Return the component as Absent with a new attempt, so that earlier reports do not count."""
    if component.get("desiredState") == "Absent":
        return component
    return {**component, "desiredState": "Absent", "attempt": component.get("attempt", 1) + 1}
