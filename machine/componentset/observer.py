"""Observe the machines of a set in one pass over the caches.

The results of machines that have not changed are reused.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from kubenode.api.v1alpha1 import Machine, MachineComponentSet
from kubenode.api.v1alpha1.machinework import AssignedComponent
from kubenode.runtime.components.render import TemplateError
from kubenode.runtime.kube.objects import Node
from machine.bootstrap.agentready import Lifesign
from machine.componentset.board import Assignments
from machine.componentset.facts import MachineSurroundings, SetView, entry_of, joined, member_of
from machine.componentset.member import IN_FLIGHT, MemberState, RolloutMember
from machine.componentset.revisions import AssignableRevision

T_co = TypeVar("T_co", covariant=True)
Leaver = tuple[Machine, AssignedComponent]
SLICE = 200
"""Machines that the first pass handles before it yields to the event loop.

10,000 machines at once block the loop for 0.4 s.
"""
_Key = tuple[str, bool, object, bool, str, Lifesign]


@dataclass(slots=True)
class MembershipSnapshot:
    """The members of a set at one moment.

    leavers: machines that have a component of this set and are no longer its members.
    conflicts: machines on which another set owns this component.
    unsure: the number of members whose agent may or may not be alive.
    hole: why the target revision cannot be rendered on some machine, "" if it can.
    """

    members: list[RolloutMember] = field(default_factory=list)
    leavers: list[Leaver] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    unsure: int = 0
    hole: str = ""


@dataclass(frozen=True, slots=True)
class _Part:
    """What one machine contributes to the snapshot."""

    member: RolloutMember | None = None
    leavers: tuple[Leaver, ...] = ()
    conflict: bool = False
    hole: str = ""


_NO_PART = _Part()


class CacheLookup(Protocol[T_co]):
    """Read access to an informer's cache."""

    @property
    def cache(self) -> Mapping[str, T_co]: ...
    def get(self, key: str, /) -> T_co | None: ...


class LifesignSource(Protocol):
    """Source of the liveness of agents."""

    def now(self) -> Callable[[str], Lifesign]: ...


class FleetCaches(Protocol):
    """The part of `machine.ground.SharedCaches` that observation needs."""

    @property
    def machines(self) -> CacheLookup[Machine]: ...
    @property
    def nodes(self) -> CacheLookup[Node]: ...
    @property
    def component_sets(self) -> CacheLookup[MachineComponentSet]: ...
    @property
    def lifesigns(self) -> LifesignSource: ...
    def find_open_job(self, node: str, /) -> str: ...


@dataclass(slots=True)
class Looker:
    """Observer of the members of one set at one generation.

    rivals: other sets of the same component family that are not being deleted.
    known: the result for each machine, with the inputs from which it was computed.
    """

    ground: FleetCaches
    board: Assignments
    set_: MachineComponentSet
    view: SetView
    target: AssignableRevision | None
    current: AssignableRevision | None
    rivals: Sequence[MachineComponentSet]
    known: dict[str, tuple[_Key, _Part]] = field(default_factory=dict)

    async def prepare(self) -> None:
        """Compute the results of all machines before the first `look`, and yield every SLICE
        machines.

        `look` computes machines that change in between again.
        """
        if self.known:
            return
        sign_of = self.ground.lifesigns.now()
        for n, (key, machine) in enumerate([*self.ground.machines.cache.items()], start=1):
            self._known(key, machine, self._stamp(machine, sign_of(key)))
            if n % SLICE == 0:
                await asyncio.sleep(0)

    def take_snapshot(self) -> MembershipSnapshot:
        """Return the snapshot. Compute anew only machines whose inputs have changed."""
        snapshot, cache = MembershipSnapshot(), self.ground.machines.cache
        name = self.set_.metadata.name
        writing, sign_of = self.board.writing, self.ground.lifesigns.now()
        for gone in [key for key in self.known if key not in cache]:
            del self.known[gone]
        for key, machine in cache.items():
            stamp = self._stamp(machine, sign_of(key))
            part = self._known(key, machine, stamp)
            if part is _NO_PART:
                continue
            member = part.member
            if member is not None:
                snapshot.unsure += stamp[-1] is Lifesign.UNKNOWN
                if name in writing.get(key, ()):
                    member = _written(member)
                snapshot.members.append(member)
            snapshot.leavers += part.leavers
            snapshot.hole = snapshot.hole or part.hole
            if part.conflict:
                snapshot.conflicts.append(key)
        return snapshot

    def _known(self, key: str, machine: Machine, stamp: _Key) -> _Part:
        entry = self.known.get(key)
        if entry is None or entry[0] != stamp:
            entry = self.known[key] = (stamp, self._part(machine, stamp))
        return entry[1]

    def _stamp(self, machine: Machine, sign: Lifesign) -> _Key:
        """Return the inputs of a machine's result: if they are equal, the result is still valid."""
        name = machine.node_name
        node = self.ground.nodes.get(name)
        checked = node.status.conditions if node is not None and self.view.checks else None
        return (
            machine.metadata.resource_version,
            node is not None and node.is_ready,
            checked,
            node is not None and node.spec.unschedulable,
            self.ground.find_open_job(name),
            sign,
        )

    def _part(self, machine: Machine, stamp: _Key) -> _Part:
        name, family = self.set_.metadata.name, self.view.family
        mine = [e for e in machine.spec.components if e.set == name]
        if machine.metadata.deletion_timestamp is not None:
            return _NO_PART
        selected = self.set_.spec.selector.matches(machine.metadata.labels)
        selected &= self.set_.metadata.deletion_timestamp is None
        eligible = selected and (joined(machine) or any(e.name == family for e in mine))
        if not selected or not family:
            return _Part(leavers=tuple((machine, e) for e in mine)) if mine else _NO_PART
        if not eligible:
            return _NO_PART
        others = tuple((machine, e) for e in mine if e.name != family)
        if self._another_has(machine):
            return _Part(leavers=others, conflict=True)
        member, hole = self._member(machine, stamp)
        return _Part(member, others, hole=hole)

    def _member(self, machine: Machine, stamp: _Key) -> tuple[RolloutMember, str]:
        node: Node | None = self.ground.nodes.get(machine.node_name)
        around = MachineSurroundings(node, stamp[5] is Lifesign.FRESH, stamp[4])
        entry = entry_of(machine, self.view.set, self.view.family)
        stale, hole = False, ""
        for made in (self.target, self.current):
            if entry is not None and made is not None and entry.revision == made.name:
                stale = made.stale(entry, machine)
                break
        if self.target is not None and (entry is None or entry.revision != self.target.name):
            try:
                self.target.hash_on(machine)
            except TemplateError as error:
                hole = f"{machine.metadata.name}: {error}"
        return member_of(machine, around, self.view, stale=stale), hole

    def _another_has(self, machine: Machine) -> bool:
        """Return whether another set owns the component on this machine.

        The set that assigned it keeps it. If no set did, the oldest set that selects the machine
        gets it.
        """
        has = next((e for e in machine.spec.components if e.name == self.view.family), None)
        if has is not None and has.set == self.set_.metadata.name:
            return False
        if has is not None and has.set and has.set in self.ground.component_sets.cache:
            return True
        return any(
            older(rival, self.set_) and rival.spec.selector.matches(machine.metadata.labels)
            for rival in self.rivals
        )


def _written(member: RolloutMember) -> RolloutMember:
    """Return the member as pending: the cache may not show yet what was just assigned."""
    if member.standing in IN_FLIGHT:
        return member
    return replace(member, standing=MemberState.PENDING)


def older(a: MachineComponentSet, b: MachineComponentSet) -> bool:
    """Return whether set `a` takes precedence: it is older, or as old and first by name."""
    return _age(a) < _age(b)


def _age(set_: MachineComponentSet) -> tuple[str, str]:
    created = set_.metadata.creation_timestamp
    return (created.isoformat() if created is not None else "~", set_.metadata.name)


def rivals_of(
    set_: MachineComponentSet, family: str, others: Iterable[tuple[MachineComponentSet, str]]
) -> list[MachineComponentSet]:
    """Return the other sets of the family that are not being deleted.

    others: each set with its component family.
    """
    name = set_.metadata.name
    return [
        other
        for other, its in others
        if its == family and other.metadata.name != name and not other.metadata.deletion_timestamp
    ]
