"""Context of one rollout step: members by state, limits, and the decisions made so far."""

from collections.abc import Iterable
from datetime import datetime

from kubenode.api.v1alpha1.machinecomponentset import UpdateStrategy
from machine.componentset.budget import DisruptionBudget, excluded_of
from machine.componentset.member import MemberState, RolloutMember
from machine.componentset.rollout import (
    AssignmentMove,
    MachineCounts,
    RolloutObservation,
    RolloutState,
)


class Turn:
    """Context of one rollout step, which collects the decisions.

    Each counted member is in one of four lists:

    new: members at the revision that the spec asks for.
    old: members at another revision.
    returned: members at another revision because a job rolled them back from the new one.
    joiners: members without a revision.
    """

    def __init__(
        self, rollout: RolloutState, strategy: UpdateStrategy, observation: RolloutObservation
    ) -> None:
        self.rollout, self.strategy, self.observation, self.now = (
            rollout,
            strategy,
            observation,
            observation.now,
        )
        self.excluded = excluded_of(observation.members, strategy.ignore_unresponsive)
        self.budget = DisruptionBudget(observation.members, strategy, self.excluded)
        self.counted = [m for m in observation.members if m.name not in self.excluded]
        self.new: list[RolloutMember] = []
        self.old: list[RolloutMember] = []
        self.returned: list[RolloutMember] = []
        self.joiners: list[RolloutMember] = []
        for member in self.counted:
            if not member.revision:
                self.joiners.append(member)
            elif self.at(member, rollout.update):
                self.new.append(member)
            elif member.rolled_back_from and member.rolled_back_from == rollout.update:
                self.returned.append(member)
            else:
                self.old.append(member)
        self.moves: list[AssignmentMove] = []
        self.going = False
        """Whether the batch can progress: it waits for nothing but its own machines."""
        self._step_times: list[datetime] = []

    # -- what may start -----------------------------------------------------------------------

    @property
    def barred(self) -> bool:
        """Whether no change of any kind may start: the set is frozen or there is a meltdown."""
        return self.observation.frozen or bool(self.observation.meltdown)

    @property
    def may_start(self) -> bool:
        """Whether changes to machines in service may start."""
        return not self.barred and self.observation.window and not self.observation.paused

    @property
    def may_advance(self) -> bool:
        """Whether machines may be assigned the new revision."""
        return self.may_start and self.rollout.stop is None and self.observation.problem is None

    # -- what is so ---------------------------------------------------------------------------

    @staticmethod
    def at(member: RolloutMember, revision: str) -> bool:
        """Return whether the revision is assigned, up to date for this machine, and not only
        staged.
        """
        return (
            member.revision == revision
            and not member.stale
            and member.standing is not MemberState.AHEAD
        )

    def final(self, member: RolloutMember) -> bool:
        """Return whether the member has failed and is not retried automatically."""
        last = member.attempt >= self.strategy.max_attempts
        return member.failed(self.now) and (last or not member.answers)

    def counts(self) -> MachineCounts:
        return MachineCounts(
            machines=len(self.observation.members),
            updated=len(self.new),
            healthy=sum(m.standing is MemberState.SUCCEEDED for m in self.counted),
            unavailable=sum(not m.available and not m.newcomer for m in self.counted),
            under_repair=sum(bool(m.open_job) for m in self.counted),
            excluded=len(self.excluded),
        )

    # -- what is decided ----------------------------------------------------------------------

    def schedule_step(self, when: datetime | None) -> None:
        """Ask for a step at that time, unless it is None or not in the future."""
        if when is not None and when > self.now:
            self._step_times.append(when)

    @property
    def find_next_timer(self) -> datetime | None:
        """Return the earliest time at which a timer expires, None if no timer runs."""
        for member in self.counted:
            if member.since is not None:
                self.schedule_step(member.since + member.patience)
        return min(self._step_times, default=None)

    def back(self, members: Iterable[RolloutMember]) -> None:
        """Plan the return of members to the current revision, in this order, within the budget.

        Unresponsive members are included, so that they do not apply the other revision when they
        return.
        """
        current = self.rollout.current
        if not (current and self.observation.returnable and self.may_start):
            return
        for member in members:
            if member.open_job or member.busy(self.now):
                continue
            if member.standing is MemberState.AHEAD or self.budget.take(member):
                self.moves.append(AssignmentMove(member.name, current))

    def repair(self) -> None:
        """Plan the rollbacks that repair jobs ask for. They replace other moves of these machines.

        Machines that are acting are left alone. The job holds the node, so neither window, pause
        nor budget applies; a freeze or meltdown does.
        """
        rollbacks = {m.name: m for m in self.observation.members if m.back and not m.busy(self.now)}
        if self.barred or not rollbacks:
            return
        others = [move for move in self.moves if move.machine not in rollbacks]
        back = [AssignmentMove(m.name, m.back, m.batch) for m in rollbacks.values()]
        self.moves = [*others, *back]

    def again(self, members: Iterable[RolloutMember], *, also_final: bool = False) -> None:
        """Plan another attempt for failed members at their assigned revision, within the budget.

        also_final: also retry members whose attempts are used up.
        """
        for member in members:
            if not member.failed(self.now) or member.open_job or not member.answers:
                continue
            if (also_final or not self.final(member)) and self.budget.take(member):
                attempt = member.attempt + 1
                self.moves.append(
                    AssignmentMove(member.name, member.revision, member.batch, attempt)
                )

    def allowed(self, advancing: bool) -> frozenset[str]:
        """Return the machines that may get a permit, or keep theirs.

        Machines that are acting keep it. A machine under repair may get one if the job rolled back
        its component, even outside the window. Corrections of drift count against the budget.

        advancing: whether the rollout is in forward mode; if it must not advance now, members of
            its batches get no permit.
        """
        machines = {m.name for m in self.observation.members if m.standing is MemberState.ACTING}
        if self.barred:
            return frozenset(machines)
        waiting = [m for m in self.observation.members if m.standing is MemberState.WAITING]
        machines |= {m.name for m in waiting if m.open_job and m.rolled_back_from and m.repaired}
        if not self.observation.window:
            return frozenset(machines)
        for member in waiting:
            if member.open_job:
                continue
            if member.drift:
                if self.budget.take(member):
                    machines.add(member.name)
            elif self.may_advance or not (advancing and self._of_batch(member)):
                machines.add(member.name)
        return frozenset(machines)

    def _of_batch(self, member: RolloutMember) -> bool:
        return bool(member.batch) and self.at(member, self.rollout.update)
