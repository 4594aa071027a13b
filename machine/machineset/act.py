"""Acts of a set on Machines. Each is idempotent and may be lost."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubenode.api.machinenames import name_of
from kubenode.api.meta import OwnerReference
from kubenode.api.v1alpha1 import Machine, MachineSet
from kubenode.api.v1alpha1.machine import MachineOrigin
from kubenode.runtime.disruption.guard import DisruptionGuard, stored
from kubenode.runtime.disruption.request import ActRequest, LiveTarget
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.paths import custom
from machine.access import MachineAccess
from machine.names import LEAVING

log = logging.getLogger(__name__)

PLURAL, SETS = Machine.resource.plural, MachineSet.resource.plural
MOST_FOREIGN = 20
"""Greatest number of names in a row that other Machines may have taken."""


@dataclass(frozen=True, slots=True)
class SetActs:
    """Acts of a set. Each checks the lease first, and returns when the cache shows its effect."""

    kube: Kube
    fence: Fence
    machines: Informer[Machine]
    guard: DisruptionGuard

    async def create(self, machine_set: MachineSet, zone: str, first: int, count: int) -> list[str]:
        """Create `count` Machines, numbered from `first`. Return the names that exist now.

        A name that a Machine of another owner has is skipped.
        """
        made: list[str] = []
        for number in range(first, first + count + MOST_FOREIGN):
            if len(made) == count:
                break
            body = made_from(machine_set, zone, name_of(machine_set.metadata, number))
            self.fence.check()
            try:
                created = await self.kube.create(custom(PLURAL), body, self.machines.read)
            except AlreadyExists:
                taken = await self.kube.get(
                    custom(PLURAL, body["metadata"]["name"]), Machine.from_server
                )
                if not is_ours(taken, machine_set):
                    continue
                created = taken
            await self._shown(created)
            made.append(created.metadata.name)
        return made

    async def annotate(self, machine: Machine, marks: Mapping[str, str | None]) -> None:
        """Set annotations of the Machine. None removes one."""
        await self._patch(machine, {"annotations": dict(marks)})

    async def own(self, machine: Machine, machine_set: MachineSet | None) -> None:
        """Make the set the controlling owner of the Machine. None releases it."""
        others = [o for o in machine.metadata.owner_references if not o.controller]
        owners = others if machine_set is None else [*others, owner(machine_set)]
        await self._patch(machine, {"ownerReferences": [o.to_dict() for o in owners]})

    async def delete(self, machine: Machine, request: ActRequest) -> None:
        """Delete the Machine, if it has not changed since the decision.

        Raises ActRefused and Conflict.
        """
        await self.guard.perform(
            request,
            intent=stored,  # the annotation `kubenode.io/leaving`
            target=lambda: self._same(machine),
            act=lambda: self._give_up(machine),
        )

    async def _same(self, machine: Machine) -> LiveTarget:
        """Return whether the live Machine is the same one and still chosen for removal."""
        name = machine.metadata.name
        live = await MachineAccess(self.kube).read(name)
        if live is None or live.metadata.uid != machine.metadata.uid:
            return LiveTarget(f"Machine {name} is gone, or another one by now")
        before, now = machine.metadata.annotations, live.metadata.annotations
        if before.get(LEAVING) != now.get(LEAVING):
            return LiveTarget(f"Machine {name} is not chosen to leave any more")
        return LiveTarget()

    async def _give_up(self, machine: Machine) -> None:
        meta = machine.metadata
        try:
            await self.kube.delete(
                custom(PLURAL, meta.name), uid=meta.uid, resource_version=meta.resource_version
            )
        except NotFound:
            return

    async def write(self, machine_set: MachineSet, change: Mapping[str, Any]) -> None:
        """Write the changed fields of the set's status."""
        meta = machine_set.metadata
        body = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": change,
        }
        self.fence.check()
        await self.kube.patch(custom(SETS, meta.name, "status"), body)

    async def _patch(self, machine: Machine, change: dict[str, Any]) -> None:
        meta = machine.metadata
        versions = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        self.fence.check()
        changed = await self.kube.patch(
            custom(PLURAL, meta.name),
            {"metadata": {**versions, **change}},
            decode=self.machines.read,
        )
        await self._shown(changed)

    async def _shown(self, machine: Machine) -> None:
        meta = machine.metadata
        await self.machines.wait_for(meta.name, meta.resource_version)


def owner(machine_set: MachineSet) -> OwnerReference:
    return OwnerReference(
        api_version=machine_set.api_version,
        kind=machine_set.kind,
        name=machine_set.metadata.name,
        uid=machine_set.metadata.uid,
        controller=True,
    )


def owner_uid(machine: Machine) -> str:
    """Return the UID of the controlling owner, "" for none."""
    return next((o.uid for o in machine.metadata.owner_references if o.controller), "")


def is_ours(machine: Machine, machine_set: MachineSet) -> bool:
    """Return whether the set controls the Machine."""
    return owner_uid(machine) == machine_set.metadata.uid


def made_from(machine_set: MachineSet, zone: str, name: str) -> dict[str, Any]:
    """Return the Machine to create."""
    template = machine_set.spec.template
    spec = template.spec
    return {
        "apiVersion": machine_set.api_version,
        "kind": "Machine",
        "metadata": {
            "name": name,
            "labels": dict(template.metadata.labels),
            "annotations": dict(template.metadata.annotations),
            "ownerReferences": [owner(machine_set).to_dict()],
        },
        "spec": {
            **spec.to_dict(),
            "origin": MachineOrigin.PROVISION.value,
            "failureDomain": zone,
        },
    }
