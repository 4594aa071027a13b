"""Write the intents of all sets to one machine: assigned components, and permits for its agent.

While a Machine is not being deleted, this is the only writer of its `spec.components` and
`spec.permit`. One write combines the intents of all sets. The permit is written once the node is
prepared, and removed before the node is released. After a crash, the holders of a node are found
again from its permits and cordon marks.
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
"""Default interval of reconciles while a machine waits or acts."""
SOON = timedelta(seconds=1)
"""Delay of the next reconcile after a write."""
KIND = MachineComponentSet.resource.kind


class HolderSource(Protocol):
    """Source of the component sets that hold a node."""

    def sets(self, node: str) -> list[Holder]:
        """Return the sets for which the node is held or cordoned, including deleted ones."""
        ...


@dataclass(frozen=True, slots=True)
class Carrier:
    """Reconciler that writes to Machines on behalf of component sets.

    job: returns the open job that holds a node, "" for none.
    patience: returns how long the permitted work of a machine may take after `startBefore`.
    _blocked: monotonic time until which a machine is not prepared, after a failed attempt.
    """

    machines: Informer[Machine]
    sets: Informer[MachineComponentSet]
    access: SetAccess
    disruptions: DisruptionService
    holders: HolderSource
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
        """Write the components. Meanwhile `board.writing` marks the machine for the sets
        concerned.
        """
        name = machine.metadata.name
        self.board.writing[name] = frozenset(s for s, w in wishes.items() if w.entry or w.drop)
        try:
            obsolete = find_obsolete_rollbacks(machine, components)
            written = await self.access.assign(machine, components, obsolete)
            await self.machines.wait_for(name, written.metadata.resource_version)
        finally:
            del self.board.writing[name]

    async def _leave(self, machine: Machine, wishes: Mapping[str, SetIntent]) -> Result:
        """Carry out what `leave_for` decides about the permit of the machine."""
        may = {set_ for set_, wish in wishes.items() if wish.leave}
        holders = self._list_holders(machine)
        names = [holder.name for holder in holders]
        leave = leave_for(machine, may, names, self.clock.now(), self.patience(machine))
        match leave.act:
            case PermitAct.END:
                if not holders:
                    self.board.waits.pop(machine.metadata.name, None)
                    return DONE
                # Until all sets have reconciled after a start, it is unknown what is under way.
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
        """Prepare the node for disruption, then write the permit or renew it."""
        name = machine.metadata.name
        if (rollback := self._repaired(machine, leave)) is not None:
            return await self._under_job(machine, leave, rollback)
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
            return Result(_after(prepared.requeue_after))
        self.board.waits[name] = (leave.lead, f"{prepared.reason}: {prepared.message}")
        if prepared.state is DisruptionState.FAILED and machine.spec.permit is None:
            await self.disruptions.end(wish.node, holder)
            self._blocked[name] = self.clock.monotonic() + 10 * AGAIN.total_seconds()
        return Result(_after(prepared.requeue_after))

    def _repaired(self, machine: Machine, leave: PermitPlan) -> Rollback | None:
        """Return the rollback request of the job that holds the node.

        None if the permit would also cover a component that the job did not ask to roll back.
        """
        job = self.job(machine.node_name)
        wishes = [rollback_in(machine.metadata.annotations, name) for name in leave.components]
        mine = [wish for wish in wishes if wish is not None and wish.job == job]
        return mine[-1] if mine and len(mine) == len(wishes) else None

    async def _under_job(self, machine: Machine, leave: PermitPlan, rollback: Rollback) -> Result:
        """Write or renew the permit under the permit of the job, which has drained the node as it
        needs.

        The machine waits if the change needs a higher disruption class than the job's permit
        allows.
        """
        name = machine.metadata.name
        if leave.class_.weight > ChangeClass(rollback.up_to).weight:
            why = (
                f"it needs {leave.class_}, the permit of job {rollback.job} is for {rollback.up_to}"
            )
            self.board.waits[name] = (leave.lead, why)
            return Result(AGAIN)
        self.board.waits.pop(name, None)
        if leave.act is PermitAct.PREPARE:
            await self._permit(machine, leave, rollback.permit)
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
        """Extend the agent's permit while the node is held, so that it can finish what it began."""
        if machine.spec.permit is None:
            return
        renewed = renewed_permit(machine.spec.permit, self.clock.now(), self.patience(machine))
        if renewed is not None:
            await self._shown(await self.access.permit(machine, renewed))

    async def _shown(self, written: Machine) -> None:
        """Wait until the cache contains the write."""
        meta = written.metadata
        await self.machines.wait_for(meta.name, meta.resource_version)

    async def _give_back(self, machine: Machine) -> Result:
        """Release the node for all holders. Return DONE once all are released."""
        self.board.waits.pop(machine.metadata.name, None)
        done = True
        for holder in self._list_holders(machine):
            done &= await self.disruptions.end(node_of(machine), holder)
        return DONE if done else Result(SOON)

    def _list_holders(self, machine: Machine) -> list[Holder]:
        node = node_of(machine)
        return self.holders.sets(node) if node is not None else []

    def _holder(self, machine: Machine, name: str) -> Holder | None:
        """Return the set as a holder. If it is gone, return any set that holds the node; else
        None.
        """
        set_ = self.sets.get(name) if name else None
        if set_ is not None:
            return Holder(kind=KIND, name=name, uid=set_.metadata.uid)
        return next(iter(self._list_holders(machine)), None)


def node_of(machine: Machine) -> str | None:
    """Return the name of the machine's Node, None if it has none or none yet."""
    if not machine.expects_node or machine.status.node_ref is None:
        return None
    return machine.status.node_ref.name


def merged(machine: Machine, wishes: Mapping[str, SetIntent]) -> list[AssignedComponent]:
    """Return the components of the machine after the intents of the sets.

    A set changes only components that it owns; it may also take over one that no set owns.
    """
    by_name = {c.name: c for c in machine.spec.components}
    for set_, wish in wishes.items():
        if wish.drop and wish.drop in by_name and by_name[wish.drop].set == set_:
            del by_name[wish.drop]
        entry = wish.entry
        if entry is None:
            continue
        there = by_name.get(entry.name)
        if there is None or there.set in (set_, ""):
            by_name[entry.name] = entry if not _same(there, entry) else by_name[entry.name]
    return list(by_name.values())


def find_obsolete_rollbacks(machine: Machine, components: Sequence[AssignedComponent]) -> list[str]:
    """Return the rollback annotations that are obsolete because the component has another
    revision.
    """
    at = {c.name: c.revision for c in components}
    obsolete = []
    for key in machine.metadata.annotations:
        family = key.removeprefix(PREFIX)
        rollback = rollback_in(machine.metadata.annotations, family) if family != key else None
        if rollback is not None and at.get(family, "") not in (rollback.from_, rollback.to):
            obsolete.append(key)
    return obsolete


def _same(there: AssignedComponent | None, wanted: AssignedComponent) -> bool:
    """Return whether two assignments are equal, apart from `assigned_at`."""
    if there is None:
        return False
    return there.model_copy(update={"assigned_at": wanted.assigned_at}) == wanted


def _after(seconds: float | None) -> timedelta:
    """Return the delay in seconds, bounded to 1 to 60 s; AGAIN for None."""
    return timedelta(seconds=max(1.0, min(seconds, 60.0))) if seconds is not None else AGAIN
