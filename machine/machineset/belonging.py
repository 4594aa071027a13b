"""Which Machines are a set's: those that it controls; one that nobody controls may join.

As with ReplicaSets: a Machine whose labels a set asks for and that has no owner becomes the set's,
and one whose labels it asks for no more is let go. An imported one is never taken: nobody could
make another in its place.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kubenode.api.v1alpha1 import Machine, MachineSet
from kubenode.api.v1alpha1.machine import MachineOrigin
from kubenode.runtime.kube.informer import Informer
from machine.machineset.act import SetActs, owner_uid

OF_OWNER, OF_CLASS = "owner", "class"
"""Indexes of Machines that were made for us: by the UID of what controls them, "" for nothing; by
their class."""


def index(machines: Informer[Machine]) -> None:
    machines.add_index(OF_OWNER, lambda m: (owner_uid(m),) if _provisioned(m) else ())
    machines.add_index(OF_CLASS, lambda m: (m.spec.class_ref,) if _provisioned(m) else ())


@dataclass(frozen=True, slots=True)
class Belonging:
    machines: Informer[Machine]
    sets: Informer[MachineSet]
    acts: SetActs

    async def settle(self, machine_set: MachineSet) -> bool:
        """Take and let go; whether one did."""
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
        """Names of the sets to which a change of it matters."""
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
