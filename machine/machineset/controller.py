"""Reconcile MachineSets: observe the Machines, compute a plan, and carry it out."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubenode.api.machinenames import number_of
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Machine, MachineSet
from kubenode.api.v1alpha1.machineset import MachineSetConditionType, MachineSetHealth
from kubenode.api.v1alpha1.permit import Holder, Operation
from kubenode.runtime.audit import AuditLine
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.disruption.request import ActRefused
from kubenode.runtime.kube.objects import Node
from machine.certificates.controller import OF_NODE
from machine.certificates.records import node_of
from machine.disruption.port import DisruptionService
from machine.disruption.removal import holder_of, prepare_removal, removal_request
from machine.ground import RepairJob, SharedCaches
from machine.machineset import status
from machine.machineset.act import SetActs
from machine.machineset.known import KnownMembers
from machine.machineset.members import Crew, RemovalReason, SetMember, SetObservation
from machine.machineset.metrics import MachineSetMetrics
from machine.machineset.nodeclocks import NodeClocks
from machine.machineset.observe import ClassCapacity, MemberSurroundings, room, wanted
from machine.machineset.ownership import OF_CLASS, OF_OWNER, Belonging, index
from machine.machineset.step import SetPlan, step
from machine.names import LEAVING, PRESERVED

log = logging.getLogger(__name__)

SOON = timedelta(seconds=1)
"""Interval of reconciles after an act that is to be observed."""
REQUEUE_INTERVAL = timedelta(seconds=30)
"""Interval of reconciles while something is in progress that wakes nobody."""
SETTLE = 0.2
"""Seconds for which changes of members are collected, so that one reconcile handles them together.
"""
BY = "machine"
"""Component name in the audit log."""
OPERATIONS = {RemovalReason.SCALE_IN: Operation.SCALE_IN, RemovalReason.REPLACE: Operation.REPLACE}
Type = MachineSetConditionType


@dataclass(slots=True)
class SetSnapshot:
    """One observation of a set.

    by_name: its Machines, as the decision saw them.
    again: when a member changes with time alone, None for never.
    refused: Machines that must not be deleted yet, with the reason.
    soonest: seconds until a refused Machine can be tried again, None if unknown.
    """

    observation: SetObservation
    crew: Crew
    room: ClassCapacity
    by_name: dict[str, Machine]
    again: datetime | None
    refused: dict[str, str]
    soonest: float | None = None


class MachineSets:
    """Reconciler of MachineSets.

    disruptions: prepares the disruption for a deletion, with the Machine as the holder.
    """

    def __init__(self, ground: SharedCaches, disruptions: DisruptionService) -> None:
        self._ground, self._disruptions = ground, disruptions
        self._clock, self._sets, self._machines = ground.clock, ground.machine_sets, ground.machines
        index(ground.machines)
        self._acts = SetActs(ground.kube, ground.fence, ground.machines, ground.guard)
        self._belonging = Belonging(ground.machines, ground.machine_sets, self._acts)
        self._metrics = MachineSetMetrics(ground.registry)
        self._known = KnownMembers()
        self._clocks = NodeClocks(lambda: ground.nodes.cache.values(), ground.clock)
        self._health: dict[str, MachineSetHealth] = {}
        self.controller = ground.controller("machinesets", self.reconcile)
        self.controller.watch(ground.machine_sets)
        for informer in (ground.machines, ground.nodes, ground.jobs, ground.classes):
            self.controller.watch(informer, lambda key, old, new: ())
        ground.machines.add_handler(self._machine_changed)
        ground.nodes.add_handler(self._node_changed)
        ground.jobs.add_handler(self._job_changed)
        ground.classes.add_handler(lambda key, old, new: self._wake_class(key))

    async def reconcile(self, name: str) -> Result:
        machine_set = self._sets.get(name)
        if machine_set is None or machine_set.metadata.deletion_timestamp is not None:
            self._health.pop(name, None)
            return DONE
        if await self._belonging.settle(machine_set):
            return Result(SOON)
        snapshot = self._take_snapshot(machine_set)
        plan = step(wanted(machine_set), snapshot.observation)
        if plan.create:
            await self._create(machine_set, plan.create)
        await self._choose(machine_set, snapshot, plan)
        for leaving in plan.remove:
            await self._remove(machine_set, snapshot, leaving)
        await self._say(machine_set, snapshot)
        return self._again(snapshot, plan)

    # -- seeing -------------------------------------------------------------------------------

    def _take_snapshot(self, machine_set: MachineSet) -> SetSnapshot:
        """Return the observation of the set from the caches."""
        now, name = self._clock.now(), machine_set.metadata.name
        health = self._health.get(name)
        if health is None or health != machine_set.spec.health:
            health = self._health[name] = machine_set.spec.health
        ref = machine_set.spec.template.spec.class_ref
        class_ = self._ground.classes.get(ref)
        self._clocks.follow([condition.type for condition in health.unhealthy_conditions])
        class_hash = class_.status.class_hash if class_ is not None else ""
        machines = self._machines.by(OF_OWNER, machine_set.metadata.uid)
        members: list[SetMember] = []
        turns: list[datetime] = []
        for machine in machines:
            around = self._around(machine)
            member, turn = self._known.member(machine, around, class_hash, health, now)
            members.append(member)
            if turn is not None:
                turns.append(turn)
        fits = room(ref, class_, self._machines.by(OF_CLASS, ref), now)
        if fits.again is not None:
            turns.append(fits.again)
        observation = SetObservation(
            now, members, self._ground.meltdown.frozen(), fits.blocked, fits.remaining
        )
        by_name = {machine.metadata.name: machine for machine in machines}
        return SetSnapshot(observation, Crew(members), fits, by_name, min(turns, default=None), {})

    def _around(self, machine: Machine) -> MemberSurroundings:
        """Return what is known of the machine's node. Empty for a machine without a Node."""
        if not machine.expects_node:
            return MemberSurroundings()
        node = machine.node_name
        open_job, repaired = self._ground.find_open_job(node), self._ground.repaired(node)
        cached = self._ground.nodes.get(node)
        return MemberSurroundings(cached, open_job, repaired, self._clocks.conditions(node))

    # -- acting -------------------------------------------------------------------------------

    async def _create(self, machine_set: MachineSet, most: int) -> None:
        """Create at most this many Machines.

        Sets of one class take turns, because they share the limits of the class. After a restore of
        etcd nothing is created: a Machine made after the backup may already have the next name.
        """
        if self._ground.restored():
            return
        ref = machine_set.spec.template.spec.class_ref
        async with self._ground.creation_locks[ref]:
            class_ = self._ground.classes.get(ref)
            fits = room(ref, class_, self._machines.by(OF_CLASS, ref), self._clock.now())
            if class_ is None or not fits.remaining or not self._machines.fresh():
                return
            first, zone = self._made(machine_set) + 1, class_.spec.failure_domain
            made = await self._acts.create(machine_set, zone, first, min(most, fits.remaining))
        for name in made:
            self._metrics.made.inc()
            await self._tell(machine_set, name, "MachineMade", "Create", f"Machine {name} is made")

    def _made(self, machine_set: MachineSet) -> int:
        """Return the highest number in the names of the set's Machines that is known."""
        machines = self._machines.by(OF_OWNER, machine_set.metadata.uid)
        numbers = (number_of(machine_set.metadata, m.metadata.name) for m in machines)
        return max(machine_set.status.made, max(numbers, default=0))

    async def _choose(self, machine_set: MachineSet, snapshot: SetSnapshot, plan: SetPlan) -> None:
        """Write the decisions of the plan on the Machines as annotations."""
        for name in plan.unmark:
            machine = snapshot.by_name[name]
            if await self._disruptions.end(node_of(machine) or None, holder_of(machine)):
                await self._acts.annotate(machine, {LEAVING: None})
        for name, leaving in plan.mark.items():
            await self._acts.annotate(snapshot.by_name[name], {LEAVING: leaving.value})
        for name, until in plan.preserve.items():
            await self._acts.annotate(snapshot.by_name[name], {PRESERVED: format_time(until)})
            what = f"Machine {name} has failed and is kept until {format_time(until)}"
            await self._tell(machine_set, name, "MachinePreserved", "Preserve", what)

    async def _remove(self, machine_set: MachineSet, snapshot: SetSnapshot, name: str) -> None:
        """Prepare the disruption and delete the Machine, whose deletion continues the drain."""
        machine = snapshot.by_name[name]
        leaving = RemovalReason(machine.metadata.annotations[LEAVING])
        if leaving is RemovalReason.REPLACE and (why := self._claim_replacement(machine)):
            snapshot.refused[name] = why
            return
        if not (permit := await self._permitted(snapshot, machine, leaving)):
            return
        why = _why(snapshot, name) or str(leaving)
        try:
            await self._acts.delete(machine, removal_request(machine, permit, why))
        except ActRefused as refused:
            snapshot.refused[name] = refused.message
            snapshot.soonest = min(SOON.total_seconds(), snapshot.soonest or SOON.total_seconds())
            return
        self._metrics.removed.labels(leaving).inc()
        what = f"Machine {name} is given up: {why}"
        await self._tell(machine_set, name, "MachineRemoved", leaving.value, what)

    def _claim_replacement(self, machine: Machine) -> str:
        """Return why the meltdown check does not let the Machine be replaced, "" if it does."""
        return self._ground.meltdown.claim_replacement(machine.metadata.uid)

    async def _permitted(
        self, snapshot: SetSnapshot, machine: Machine, leaving: RemovalReason
    ) -> str:
        """Return the name of the permit, UNNEEDED without a Node, "" if the deletion must wait."""
        prepared = await prepare_removal(self._disruptions, machine, OPERATIONS[leaving])
        if prepared.permit:
            return prepared.permit
        snapshot.refused[machine.metadata.name] = prepared.message or prepared.reason
        if prepared.requeue_after is not None:
            snapshot.soonest = min(
                prepared.requeue_after, snapshot.soonest or prepared.requeue_after
            )
        return ""

    # -- saying -------------------------------------------------------------------------------

    async def _say(self, machine_set: MachineSet, snapshot: SetSnapshot) -> None:
        """Write the status as observed. The acts of this reconcile show in the next one."""
        want = wanted(machine_set)
        conditions = {
            Type.SCALED: status.scaled(want, snapshot.observation, snapshot.crew, snapshot.room),
            Type.HEALTHY: status.healthy(
                want, snapshot.observation, snapshot.crew, snapshot.refused
            ),
        }
        made = self._made(machine_set)
        new = status.status(machine_set, snapshot.crew, conditions, made, snapshot.observation.now)
        if change := status.changes(machine_set, new):
            await self._acts.write(machine_set, change)

    async def _tell(
        self, machine_set: MachineSet, name: str, reason: str, what: str, message: str
    ) -> None:
        regarding = {
            "kind": machine_set.kind,
            "api_version": machine_set.api_version,
            "name": machine_set.metadata.name,
            "uid": machine_set.metadata.uid,
        }
        await self._ground.recorder.emit(regarding, "Normal", reason, message)
        who = f"MachineSet {machine_set.metadata.name}"
        self._ground.audit.write(
            AuditLine(self._clock.now(), BY, who, what, "Done", why=message, node=name)
        )

    def _again(self, snapshot: SetSnapshot, plan: SetPlan) -> Result:
        if plan.unmark or plan.mark or plan.preserve:
            return Result(SOON)
        waits = (
            [REQUEUE_INTERVAL.total_seconds()]
            if snapshot.crew.leaving or snapshot.observation.blocked
            else []
        )
        if snapshot.again is not None:
            waits.append((snapshot.again - snapshot.observation.now).total_seconds())
        if snapshot.soonest is not None:
            waits.append(snapshot.soonest)
        if snapshot.observation.frozen or snapshot.refused:
            waits.append(self._ground.meltdown.requeue_after)
        return Result(max(SOON, timedelta(seconds=min(waits)))) if waits else DONE

    # -- waking -------------------------------------------------------------------------------

    def wake(self, holder: Holder) -> None:
        """Enqueue the sets of the Machine that is next in line at Kube Defender."""
        machine = self._machines.get(holder.name) if holder.kind == "Machine" else None
        self._wake(machine)

    def _wake(self, *machines: Machine | None) -> None:
        for name in {n for m in machines if m is not None for n in self._belonging.sets_of(m)}:
            self.controller.queue.add_after(name, SETTLE)

    def _machine_changed(self, key: str, old: Machine | None, new: Machine | None) -> None:
        if new is None:
            self._known.forget(key)
        self._wake(old, new)

    def _node_changed(self, key: str, old: Node | None, new: Node | None) -> None:
        """Wake the sets of the node, unless only its heartbeat, images or volumes have changed."""
        turned = self._clocks.changed(key, new)
        if turned or old is None or new is None or _conditions(old) != _conditions(new):
            self._wake(*self._machines.by(OF_NODE, key))

    def _job_changed(self, key: str, old: RepairJob | None, new: RepairJob | None) -> None:
        nodes: Iterable[str] = {job.spec.node_name for job in (old, new) if job is not None}
        for node in nodes:
            self._wake(*self._machines.by(OF_NODE, node))

    def _wake_class(self, name: str) -> None:
        for machine_set in self._sets.cache.values():
            if machine_set.spec.template.spec.class_ref == name:
                self.controller.queue.add_after(machine_set.metadata.name, SETTLE)


def _why(snapshot: SetSnapshot, name: str) -> str:
    """Return why the member is unhealthy, "" if it is not."""
    return next((m.unhealthy for m in snapshot.observation.members if m.name == name), "")


def _conditions(node: Node) -> list[tuple[str, str]]:
    return [(c.type, c.status) for c in node.status.conditions]
