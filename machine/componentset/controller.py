"""Reconcile MachineComponentSets.

Each reconcile resolves the revisions, observes the members, computes one rollout step, writes the
status, and then publishes the intents that the carrier writes to the Machines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from kubenode.api.recurrence import inside
from kubenode.api.rollouts import RolloutReason
from kubenode.api.v1alpha1 import Machine, MachineComponentSet
from kubenode.api.v1alpha1.machinecomponentset import MachineComponentSetStatus
from kubenode.api.v1alpha1.machinework import DesiredState
from kubenode.runtime.clock import Clock
from kubenode.runtime.components.render import TemplateError
from kubenode.runtime.controller.result import DONE, Result
from machine.componentset import departures, events, messages
from machine.componentset.access import FRESH_SECONDS, SetAccess
from machine.componentset.board import Assignments, SetIntent
from machine.componentset.budget import part_of
from machine.componentset.facts import REBOOT, SetView
from machine.componentset.member import RolloutMember
from machine.componentset.observer import Looker, MembershipSnapshot, rivals_of
from machine.componentset.revisions import AssignableRevision, history
from machine.componentset.rollout import (
    ConditionMessage,
    RolloutObservation,
    RolloutPlan,
    RolloutState,
)
from machine.componentset.status import (
    only_counts,
    remembered,
    report_deletion,
    status_after,
    unsure,
)
from machine.componentset.step import step
from machine.componentset.targets import Aim, Aimer
from machine.ground import SharedCaches
from machine.inspection.port import Inspected, Inspector

FINALIZER = "kubenode.io/componentset"
AT_WORK = timedelta(seconds=30)
"""Interval of reconciles while assignments, permits or removals are pending."""
UNSURE = timedelta(seconds=5)
"""Interval of reconciles while it is unknown which agents are alive."""
UNSURE_REPORT_SECONDS = 20.0
"""Seconds for which the unknown liveness of agents must last before the status reports it.

Most agents renew their Lease earlier. A shorter time would make the status flap when the leader
changes.
"""
COUNTED = timedelta(seconds=1)
"""Least time between two status writes that change only counts, versions and condition messages."""


class Steady:
    """Clock that starts at the wall time of the process start and advances monotonically.

    Corrections of the wall clock during the life of the process do not change it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall, self._began = clock.now(), clock.monotonic()
        self._leads_since: datetime | None = None

    def leads_since(self) -> datetime:
        """Return the time of the first call. Only the leader reconciles, so this is the term's
        start.
        """
        self._leads_since = self._leads_since or self.now()
        return self._leads_since

    def now(self) -> datetime:
        """Return the time, truncated to milliseconds."""
        passed = timedelta(seconds=self._clock.monotonic() - self._began)
        instant = self._wall + passed
        return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


@dataclass(slots=True)
class SetController:
    """Reconciler of MachineComponentSets.

    ground: the informers and settings of the process.
    aimer: resolves the target and current revision of a set.
    board: the intents of all sets, which the carrier writes to Machines.
    steady: the clock for deadlines. Windows use the wall clock.
    """

    ground: SharedCaches
    access: SetAccess
    aimer: Aimer
    inspector: Inspector
    board: Assignments
    steady: Steady
    _lookers: dict[str, tuple[object, Looker]] = field(default_factory=dict)
    _written: dict[str, float] = field(default_factory=dict)
    _unsure_since: dict[str, float] = field(default_factory=dict)

    async def reconcile(self, name: str) -> Result:
        set_ = self.ground.component_sets.get(name)
        if set_ is None:
            self._lookers.pop(name, None)
            self._written.pop(name, None)
            self._unsure_since.pop(name, None)
            if self.board.known(name):
                self.board.forget(name)
            return DONE
        deleting = set_.metadata.deletion_timestamp is not None
        if FINALIZER not in set_.metadata.finalizers:
            if deleting:
                return DONE
            await self._finalizers(set_, [*set_.metadata.finalizers, FINALIZER])
            return Result(timedelta(0))
        aim = await self.aimer.aim(set_)
        snapshot = await self._take_snapshot(set_, aim)
        if deleting:
            return await self._deleted(set_, snapshot)
        if snapshot.unsure:
            return await self._unsure(set_, aim)
        self._unsure_since.pop(name, None)
        return await self._step(set_, aim, snapshot)

    async def _unsure(self, set_: MachineComponentSet, aim: Aim) -> Result:
        """Report that nothing starts, because it is unknown which agents are alive."""
        name, now = set_.metadata.name, self.ground.clock.monotonic()
        if now < self._unsure_since.setdefault(name, now) + UNSURE_REPORT_SECONDS:
            return Result(UNSURE)
        message = messages.unsure(self.ground.settings.stale)
        target = aim.target.name if aim.target is not None else ""
        status = unsure(set_, target, message, self.steady.now())
        if status != set_.status:
            await self._write(set_, status)
        return Result(UNSURE)

    # -- looking ------------------------------------------------------------------------------

    async def _take_snapshot(self, set_: MachineComponentSet, aim: Aim) -> MembershipSnapshot:
        name, made = set_.metadata.name, [m for m in (aim.target, aim.current) if m is not None]
        sets = [(s, self.aimer.family_of(s)) for s in self.ground.component_sets.cache.values()]
        rivals = rivals_of(set_, aim.family, sets)
        sign = (
            set_.metadata.uid,
            set_.metadata.generation,
            tuple((m.name, m.exact) for m in made),
            tuple((r.metadata.uid, r.metadata.generation) for r in rivals),
            set_.metadata.deletion_timestamp,
            len(self.ground.component_sets.cache),
        )
        known = self._lookers.get(name)
        if known is None or known[0] != sign:
            view = view_of(set_, aim)
            looker = Looker(self.ground, self.board, set_, view, aim.target, aim.current, rivals)
            known = self._lookers[name] = (sign, looker)
        await known[1].prepare()
        return known[1].take_snapshot()

    def _observe(
        self, set_: MachineComponentSet, aim: Aim, snapshot: MembershipSnapshot
    ) -> tuple[RolloutObservation, datetime | None]:
        """Return the observation for `step`, and the time at which the window next opens or closes.

        The time is None if the set has no window.
        """
        spec, window = set_.spec, set_.spec.update_strategy.window
        open_, until = (True, None) if window is None else inside(window, self.ground.clock.now())
        problem = aim.problem
        if problem is None and snapshot.hole:
            problem = ConditionMessage(RolloutReason.MISSING_COMPONENT, snapshot.hole)
        observation = RolloutObservation(
            members=snapshot.members,
            target=aim.target.name if aim.target is not None else "",
            now=self.steady.now(),
            returnable=aim.current is not None or not set_.status.current_revision,
            problem=problem,
            paused=spec.paused,
            frozen=spec.frozen,
            meltdown=self.ground.meltdown.frozen(),
            window=open_,
            conflicts=snapshot.conflicts,
            stuck=departures.stuck(snapshot.leavers),
            waits=self.board.waiting(set_.metadata.name),
            clock_since=self.steady.leads_since(),
        )
        return observation, until

    # -- deciding and doing -------------------------------------------------------------------

    async def _step(
        self, set_: MachineComponentSet, aim: Aim, snapshot: MembershipSnapshot
    ) -> Result:
        before, strategy = remembered(set_.status), set_.spec.update_strategy
        if back := await self.aimer.of(set_, {m.back for m in snapshot.members if m.back}):
            snapshot = await self._take_snapshot(
                set_, aim
            )  # time has passed: plan on the current members
        observation, turns = self._observe(set_, aim, snapshot)
        after, plan = step(before, strategy, observation)
        if plan.inspect:
            what = self._inspected(set_, after, snapshot)
            answer = await self.inspector.inspect(strategy.inspection.checks, what)
            snapshot = await self._take_snapshot(set_, aim)
            observation = replace(self._observe(set_, aim, snapshot)[0], inspected=answer)
            after, plan = step(before, strategy, observation)
        name = set_.metadata.name
        wishes = self._wishes(set_, aim, snapshot, plan, back, may_remove=_may_remove(observation))
        self.board.narrow(name, wishes)
        status, waits = self._status(set_, aim, snapshot, after, plan), False
        if status != set_.status:
            waits = only_counts(set_.status, status) and self._wrote_lately(name)
            if not waits:
                await self._write(set_, status)
                await events.tell(self.ground.recorder, set_, before, after, plan)
        self.board.put(name, wishes)
        return Result(COUNTED) if waits else self._again(plan, aim, observation, turns)

    def _wishes(
        self,
        set_: MachineComponentSet,
        aim: Aim,
        snapshot: MembershipSnapshot,
        plan: RolloutPlan,
        back: Mapping[str, AssignableRevision],
        *,
        may_remove: bool,
    ) -> dict[str, SetIntent]:
        """Return the intent of the set for each machine: removals, permits and planned assignments.

        A machine whose template cannot be rendered gets no assignment; `_seen` reports the error.

        back: revisions to which repair jobs want machines returned, by name.
        may_remove: whether removals from machines that left the set may start.
        """
        name = set_.metadata.name
        limit = max(1, part_of(set_.spec.update_strategy.max_unavailable, len(snapshot.members)))
        intents = departures.wishes_for(
            snapshot.leavers,
            set_.spec.on_unselect,
            may_start=may_remove,
            limit=limit,
        )
        for machine in plan.allowed:
            intents[machine] = SetIntent(leave=True)
        made = {**back, **{m.name: m for m in (aim.target, aim.current) if m is not None}}
        for move in plan.moves:
            machine_ = self.ground.machines.get(move.machine)
            revision = made.get(move.revision)
            if machine_ is None or revision is None:
                continue
            try:
                entry = revision.assigned(move, machine_, name, self.steady.now())
            except TemplateError:
                continue
            leave = intents.get(move.machine, SetIntent()).leave
            intents[move.machine] = SetIntent(entry=entry, leave=leave)
        return intents

    def _status(
        self,
        set_: MachineComponentSet,
        aim: Aim,
        snapshot: MembershipSnapshot,
        after: RolloutState,
        plan: RolloutPlan,
    ) -> MachineComponentSetStatus:
        now = self.steady.now()
        in_use = {m.revision for m in snapshot.members} | {
            after.current,
            after.update,
            after.rejected,
        }
        revisions = history(set_.status.revisions, aim.target, in_use, now)
        return status_after(set_, after, plan, snapshot.members, revisions, now)

    def _inspected(
        self, set_: MachineComponentSet, after: RolloutState, snapshot: MembershipSnapshot
    ) -> Inspected:
        """Return the subject of an inspection: the nodes of the open batch, and a name for this
        run.

        The run name is the same in each reconcile until the run ends, so a repeated request is
        idempotent.
        """
        batch, name = after.batch, set_.metadata.name
        begun = batch.succeeded_at.timestamp() if batch.succeeded_at is not None else 0
        part = "after" if batch.bake_until is not None else "before"
        run = f"{after.update}-{batch.index}-{part}-{begun:.0f}-{batch.inconclusive}"
        mine = [
            m for m in snapshot.members if m.revision == after.update and m.batch == batch.index
        ]
        nodes, unjoined = self._nodes_of(mine)
        return Inspected(name, set_.metadata.uid, run, nodes, unjoined)

    def _nodes_of(self, members: Sequence[RolloutMember]) -> tuple[list[str], list[str]]:
        """Return the names of the members' Nodes, and of the members that expect one and have
        none.
        """
        nodes, unjoined = [], []
        for member in members:
            machine: Machine | None = self.ground.machines.get(member.name)
            if machine is not None and machine.status.node_ref is not None:
                nodes.append(machine.status.node_ref.name)
            elif machine is None or machine.expects_node:
                unjoined.append(member.name)
        return nodes, unjoined

    async def _deleted(self, set_: MachineComponentSet, snapshot: MembershipSnapshot) -> Result:
        """Remove the component from the members of a deleted set, then remove the finalizer."""
        name = set_.metadata.name
        if not snapshot.leavers:
            self.board.put(name, {})
            remaining = [f for f in set_.metadata.finalizers if f != FINALIZER]
            await self._finalizers(set_, remaining)
            return DONE
        frozen = self.ground.meltdown.frozen()
        limit = part_of(set_.spec.update_strategy.max_unavailable, len(snapshot.leavers))
        wishes = departures.wishes_for(
            snapshot.leavers,
            set_.spec.on_unselect,
            may_start=not frozen and not set_.spec.frozen,
            limit=max(1, limit),
        )
        message = messages.not_removed(departures.stuck(snapshot.leavers))
        status = report_deletion(set_, message, self.steady.now())
        if status != set_.status:
            await self._write(set_, status)
        self.board.put(name, wishes)
        return Result(AT_WORK)

    def _wrote_lately(self, name: str) -> bool:
        """Return whether the status was written less than COUNTED ago by this process."""
        since = self.ground.clock.monotonic() - self._written.get(name, float("-inf"))
        return since < COUNTED.total_seconds()

    async def _write(self, set_: MachineComponentSet, status: MachineComponentSetStatus) -> None:
        body = status.model_dump(mode="json", by_alias=True)
        written = await self.access.status(set_, body)
        meta = written.metadata
        self._written[meta.name] = self.ground.clock.monotonic()
        await self.ground.component_sets.wait_for(meta.name, meta.resource_version)

    async def _finalizers(self, set_: MachineComponentSet, finalizers: list[str]) -> None:
        written = await self.access.finalizers(set_, finalizers)
        if finalizers:
            meta = written.metadata
            await self.ground.component_sets.wait_for(meta.name, meta.resource_version)

    def _again(
        self, plan: RolloutPlan, aim: Aim, observation: RolloutObservation, turns: datetime | None
    ) -> Result:
        """Return when to reconcile again: the earliest time at which something can change.

        Pending work is also polled, because a wake-up may be lost.
        """
        waits = []
        if plan.requeue_at is not None:
            waits.append(plan.requeue_at - observation.now)
        if turns is not None:
            waits.append(turns - self.ground.clock.now())
        if plan.moves or plan.allowed or observation.waits:
            waits.append(AT_WORK)
        if observation.meltdown:
            waits.append(timedelta(seconds=self.ground.meltdown.requeue_after))
        if aim.texts or aim.problem is not None:
            waits.append(timedelta(seconds=FRESH_SECONDS))
        return Result(max(timedelta(seconds=1), min(waits))) if waits else DONE


def _may_remove(observation: RolloutObservation) -> bool:
    """Return whether a component may be removed from machines that left the set."""
    return (
        not observation.frozen
        and not observation.meltdown
        and observation.window
        and not observation.paused
    )


def view_of(set_: MachineComponentSet, aim: Aim) -> SetView:
    """Return the parameters by which the set assesses its machines.

    The time for a reboot is the longer one of the target and the current revision.
    """
    spec = set_.spec
    checks = {
        made.component: wanted
        for made in (aim.target, aim.current)
        if made is not None
        and (wanted := [c.node_condition for c in made.spec.health if c.node_condition is not None])
    }
    reboot = max(
        (m.spec.reboot_seconds for m in (aim.target, aim.current) if m),
        default=REBOOT.total_seconds(),
    )
    return SetView(
        set=set_.metadata.name,
        family=aim.family,
        strategy=spec.update_strategy,
        desired=DesiredState(spec.desired_state),
        checks=checks,
        reboot=timedelta(seconds=reboot),
    )
