"""Carries out at one machine what sets want of it: their entries, and leave for its agent.

The only one that writes `spec.components` and `spec.permit` of a Machine that stays. One write
takes what all sets want; the permit comes once the node is ready for it, goes before the node is
given back, and what a kill left behind is found at the node itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from kubenode.api.v1alpha1 import Machine, MachineComponentSet
from kubenode.api.v1alpha1.machinework import AssignedComponent, ChangeClass, MachinePermit
from kubenode.api.v1alpha1.permit import Holder, Operation
from kubenode.runtime.clock import Clock
from kubenode.runtime.components.rollback import PREFIX, Rollback, rollback_in
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.kube.informer import Informer
from machine.componentset.access import SetAccess
from machine.componentset.board import Assignments, SetIntent
from machine.componentset.facts import START_WITHIN
from machine.componentset.leave import PermitAct, PermitPlan, leave_for, renewed_permit
from machine.disruption.port import DisruptionRequest as Disruption
from machine.disruption.port import DisruptionService, DisruptionState

AGAIN = timedelta(seconds=30)
SOON = timedelta(seconds=1)
KIND = MachineComponentSet.resource.kind


class Held(Protocol):
    def sets(self, node: str) -> list[Holder]:
        """Component sets for which the node is held or cordoned, gone ones too."""
        ...


@dataclass(frozen=True, slots=True)
class Carrier:
    """job       the open job that holds a node, "" for none
    patience  how long what a machine has leave for may take, from its permit's last start on
    """

    machines: Informer[Machine]
    sets: Informer[MachineComponentSet]
    access: SetAccess
    disruptions: DisruptionService
    held: Held
    board: Assignments
    clock: Clock
    job: Callable[[str], str]
    patience: Callable[[Machine], timedelta]
    _blocked: dict[str, float] = field(default_factory=dict)

    async def reconcile(self, name: str) -> Result:
        machine = self.machines.get(name)
        if machine is None:
            self.board.waits.pop(name, None)
            return DONE
        if machine.metadata.deletion_timestamp is not None:
            return await self._give_back(machine)
        wishes = self.board.of(name)
        components = merged(machine, wishes)
        if components != list(machine.spec.components):
            await self._assign(machine, components, wishes)
            return Result(SOON)
        return await self._leave(machine, wishes)

    async def _assign(
        self,
        machine: Machine,
        components: list[AssignedComponent],
        wishes: Mapping[str, SetIntent],
    ) -> None:
        name = machine.metadata.name
        self.board.writing[name] = frozenset(s for s, w in wishes.items() if w.entry or w.drop)
        try:
            over = rollbacks_over(machine, components)
            written = await self.access.assign(machine, components, over)
            await self.machines.wait_for(name, written.metadata.resource_version)
        finally:
            del self.board.writing[name]

    async def _leave(self, machine: Machine, wishes: Mapping[str, SetIntent]) -> Result:
        may = {set_ for set_, wish in wishes.items() if wish.leave}
        held = self._held(machine)
        names = [holder.name for holder in held]
        leave = leave_for(machine, may, names, self.clock.now(), self.patience(machine))
        match leave.act:
            case PermitAct.END:
                if not held:
                    self.board.waits.pop(machine.metadata.name, None)
                    return DONE
                # Before every set has looked nobody knows what is under way.
                if not all(self.board.known(e.set) for e in machine.spec.components if e.set):
                    return Result(AGAIN)
                given_back = await self._give_back(machine)
                return Result(SOON) if leave.lead else given_back
            case PermitAct.CLEAR:
                written = await self.access.permit(machine, None)
                await self._shown(written)
                return Result(SOON)
            case PermitAct.PREPARE | PermitAct.KEEP:
                return await self._prepare(machine, leave)

    async def _prepare(self, machine: Machine, leave: PermitPlan) -> Result:
        name = machine.metadata.name
        if (asked := self._repaired(machine, leave)) is not None:
            return await self._under_job(machine, leave, asked)
        holder = self._holder(machine, leave.lead)
        if holder is None:
            if machine.spec.permit is not None and leave.act is PermitAct.PREPARE:
                await self._shown(await self.access.permit(machine, None))
            return DONE
        if self.clock.monotonic() < self._blocked.get(name, 0.0):
            return Result(AGAIN)
        begun = machine.spec.permit is not None and leave.act is PermitAct.KEEP
        wish = Disruption(node_of(machine), holder, Operation.ROLLOUT, leave.class_, begun=begun)
        prepared = await self.disruptions.prepare(wish)
        if prepared.state is DisruptionState.READY:
            self.board.waits.pop(name, None)
            if leave.act is PermitAct.PREPARE:
                await self._permit(machine, leave, prepared.permit)
            else:
                await self._renew(machine)
            return Result(_after(prepared.look_again))
        self.board.waits[name] = (leave.lead, f"{prepared.reason}: {prepared.message}")
        if prepared.state is DisruptionState.FAILED and machine.spec.permit is None:
            await self.disruptions.end(wish.node, holder)
            self._blocked[name] = self.clock.monotonic() + 10 * AGAIN.total_seconds()
        return Result(_after(prepared.look_again))

    def _repaired(self, machine: Machine, leave: PermitPlan) -> Rollback | None:
        """The wish of the job that holds its node, where leave is for nothing else."""
        job = self.job(machine.node_name)
        wishes = [rollback_in(machine.metadata.annotations, name) for name in leave.components]
        mine = [wish for wish in wishes if wish is not None and wish.job == job]
        return mine[-1] if mine and len(mine) == len(wishes) else None

    async def _under_job(self, machine: Machine, leave: PermitPlan, asked: Rollback) -> Result:
        """The job's permit holds the node, and the job emptied it as far as it wanted to."""
        name = machine.metadata.name
        if leave.class_.weight > ChangeClass(asked.up_to).weight:
            why = f"it needs {leave.class_}, the permit of job {asked.job} is for {asked.up_to}"
            self.board.waits[name] = (leave.lead, why)
            return Result(AGAIN)
        self.board.waits.pop(name, None)
        if leave.act is PermitAct.PREPARE:
            await self._permit(machine, leave, asked.permit)
        else:
            await self._renew(machine)
        return Result(AGAIN)

    async def _permit(self, machine: Machine, leave: PermitPlan, permit: str) -> None:
        self._blocked.pop(machine.metadata.name, None)
        given = MachinePermit(
            name=permit,
            components=list(leave.components),
            max_disruption=leave.class_,
            start_before=self.clock.now() + START_WITHIN,
        )
        await self._shown(await self.access.permit(machine, given))

    async def _renew(self, machine: Machine) -> None:
        """Let the agent go on with what it has begun, as long as its node is held for that."""
        if machine.spec.permit is None:
            return
        renewed = renewed_permit(machine.spec.permit, self.clock.now(), self.patience(machine))
        if renewed is not None:
            await self._shown(await self.access.permit(machine, renewed))

    async def _shown(self, written: Machine) -> None:
        meta = written.metadata
        await self.machines.wait_for(meta.name, meta.resource_version)

    async def _give_back(self, machine: Machine) -> Result:
        self.board.waits.pop(machine.metadata.name, None)
        done = True
        for holder in self._held(machine):
            done &= await self.disruptions.end(node_of(machine), holder)
        return DONE if done else Result(SOON)

    def _held(self, machine: Machine) -> list[Holder]:
        node = node_of(machine)
        return self.held.sets(node) if node is not None else []

    def _holder(self, machine: Machine, name: str) -> Holder | None:
        set_ = self.sets.get(name) if name else None
        if set_ is not None:
            return Holder(kind=KIND, name=name, uid=set_.metadata.uid)
        return next(iter(self._held(machine)), None)


def node_of(machine: Machine) -> str | None:
    """Name of its Node; None: it has none, or not yet."""
    if machine.spec.node == "None" or machine.status.node_ref is None:
        return None
    return machine.status.node_ref.name


def merged(machine: Machine, wishes: Mapping[str, SetIntent]) -> list[AssignedComponent]:
    """What is assigned with what the sets want: each changes what is its own or nobody's."""
    found = {c.name: c for c in machine.spec.components}
    for set_, wish in wishes.items():
        if wish.drop and wish.drop in found and found[wish.drop].set == set_:
            del found[wish.drop]
        entry = wish.entry
        if entry is None:
            continue
        there = found.get(entry.name)
        if there is None or there.set in (set_, ""):
            found[entry.name] = entry if not _same(there, entry) else found[entry.name]
    return list(found.values())


def rollbacks_over(machine: Machine, components: Sequence[AssignedComponent]) -> list[str]:
    """Annotations of jobs that took back what is not at stake any more: another revision came."""
    at = {c.name: c.revision for c in components}
    found = []
    for key in machine.metadata.annotations:
        family = key.removeprefix(PREFIX)
        asked = rollback_in(machine.metadata.annotations, family) if family != key else None
        if asked is not None and at.get(family, "") not in (asked.from_, asked.to):
            found.append(key)
    return found


def _same(there: AssignedComponent | None, wanted: AssignedComponent) -> bool:
    """But for when it was planned."""
    if there is None:
        return False
    return there.model_copy(update={"assigned_at": wanted.assigned_at}) == wanted


def _after(seconds: float | None) -> timedelta:
    return timedelta(seconds=max(1.0, min(seconds, 60.0))) if seconds is not None else AGAIN
