"""Removal of a Machine under a permit: its deletion goes on with the same permit and cordon."""

from dataclasses import replace

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinework import ChangeClass
from kubenode.api.v1alpha1.permit import Holder, Operation
from kubenode.runtime.disruption.request import ActRequest, DisruptiveAct
from machine.certificates.records import node_of
from machine.disruption.port import (
    DISRUPTION,
    UNNEEDED,
    DisruptionRequest,
    DisruptionService,
    DisruptionState,
    Prepared,
)


def holder_of(machine: Machine) -> Holder:
    """Return the Machine as the holder of permits."""
    return Holder(kind=machine.kind, name=machine.metadata.name, uid=machine.metadata.uid)


async def prepare_removal(
    disruptions: DisruptionService, machine: Machine, operation: Operation
) -> Prepared:
    """Prepare the disruption. `permit` is "" while the Machine must not be deleted."""
    node, holder = node_of(machine) or None, holder_of(machine)
    prepared = await disruptions.prepare(
        DisruptionRequest(
            node,
            holder,
            operation,
            ChangeClass.REBOOT,
            drain_timeout=machine.spec.deletion.drain_timeout,
        )
    )
    if prepared.permit and prepared.state in (DisruptionState.DRAINING, DisruptionState.READY):
        return prepared
    if prepared.state is DisruptionState.FAILED:
        await disruptions.end(node, holder)
    return replace(prepared, permit="")


def removal_request(machine: Machine, permit: str, why: str) -> ActRequest:
    """Return the request to delete the Machine under its permit."""
    meta = machine.metadata
    return ActRequest(
        DisruptiveAct.DELETE,
        target=meta.name,
        node="" if permit == UNNEEDED else machine.node_name,
        who=f"Machine {meta.name}",
        request=meta.uid,
        permit=permit,
        holder_uid=meta.uid,
        class_=str(DISRUPTION[ChangeClass.REBOOT]),
        evidence=why,
    )
