"""Cache of set members, each valid until one of its inputs changes.

A set of 10,000 observes all of its Machines whenever one of them changes.
"""

from datetime import datetime
from typing import NamedTuple

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machineset import MachineSetHealth
from machine.machineset.members import SetMember
from machine.machineset.observe import MemberSurroundings, member


class _KnownMachine(NamedTuple):
    """A member with the inputs from which it was computed."""

    machine: Machine
    around: MemberSurroundings
    class_hash: str
    health: MachineSetHealth
    member: SetMember
    turn: datetime | None
    at: datetime


class KnownMembers:
    """Cache of members by Machine name."""

    def __init__(self) -> None:
        self._known: dict[str, _KnownMachine] = {}

    def forget(self, name: str) -> None:
        self._known.pop(name, None)

    def member(
        self,
        machine: Machine,
        around: MemberSurroundings,
        class_hash: str,
        health: MachineSetHealth,
        now: datetime,
    ) -> tuple[SetMember, datetime | None]:
        """Return the same as `observe.member`. Inputs are compared by identity: caches replace
        objects.
        """
        name = machine.metadata.name
        known = self._known.get(name)
        if (
            known is not None
            and known.machine is machine
            and known.around.node is around.node
            and known.around.conditions is around.conditions
            and (known.around.repair, known.around.repaired) == (around.repair, around.repaired)
            and known.class_hash == class_hash
            and known.health is health
            and known.at <= now
            and (known.turn is None or now < known.turn)
        ):
            return known.member, known.turn
        computed, turn = member(machine, around, class_hash, health, now)
        self._known[name] = _KnownMachine(machine, around, class_hash, health, computed, turn, now)
        return computed, turn
