"""Ownership of Machines: adoption and release, as with ReplicaSets.

A set adopts a Machine without a controller that its selector matches, and releases one that it no
longer matches. Imported Machines are never adopted, because a set cannot make a replacement.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kubenode.api.v1alpha1 import Machine, MachineSet
from kubenode.api.v1alpha1.machine import MachineOrigin
from kubenode.runtime.kube.informer import Informer
from machine.machineset.act import SetActs, owner_uid

OF_OWNER, OF_CLASS = "owner", "class"
"""Indexes of provisioned Machines: by the UID of the controlling owner, "" for none; by their
class.
"""


def index(machines: Informer[Machine]) -> None:
    """Add the indexes to the informer."""
    machines.add_index(OF_OWNER, lambda m: (owner_uid(m),) if _provisioned(m) else ())
    machines.add_index(OF_CLASS, lambda m: (m.spec.class_ref,) if _provisioned(m) else ())


@dataclass(frozen=True, slots=True)
class Belonging:
    """Adoption and release of Machines."""

    machines: Informer[Machine]
    sets: Informer[MachineSet]
    acts: SetActs

    async def settle(self, machine_set: MachineSet) -> bool:
        """Adopt and release Machines. Return whether any has changed."""
        changed = False
        for machine in self.machines.by(OF_OWNER, machine_set.metadata.uid):
            if not _asks_for(machine_set, machine) and _lives(machine):
                await self.acts.own(machine, None)
                changed = True
        for machine in self.machines.by(OF_OWNER, ""):
            if self._may_take(machine_set, machine):
                await self.acts.own(machine, machine_set)
                changed = True
        return changed

    def sets_of(self, machine: Machine) -> Iterable[str]:
        """Yield the names of the sets that a change of the Machine concerns."""
        uid = owner_uid(machine)
        for machine_set in self.sets.cache.values():
            if uid == machine_set.metadata.uid or (not uid and _asks_for(machine_set, machine)):
                yield machine_set.metadata.name

    def _may_take(self, machine_set: MachineSet, machine: Machine) -> bool:
        return _lives(machine) and _asks_for(machine_set, machine)


def _asks_for(machine_set: MachineSet, machine: Machine) -> bool:
    return machine_set.spec.selector.matches(machine.metadata.labels)


def _provisioned(machine: Machine) -> bool:
    return machine.spec.origin is MachineOrigin.PROVISION


def _lives(machine: Machine) -> bool:
    return machine.metadata.deletion_timestamp is None
