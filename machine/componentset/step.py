"""Compute one step of a rollout: from state and observation to the next state and a plan. Pure.

A rollout is in one of two modes:

- forward: machines change in batches from the current revision to the revision of the spec.
- settled: the spec asks for the current revision, or for a rejected one. Machines at another
  revision return to the current one, the last changed first.

Machines that join get the current revision. The state is stored before the plan is carried out, and
each reconcile computes the same plan until the machines show its effect. A crash in between
therefore changes nothing.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from kubenode.api.v1alpha1.machinecomponentset import RolloutPhase as P
from kubenode.api.v1alpha1.machinecomponentset import UpdateStrategy
from kubenode.runtime.term import begin_by_our_clock
from machine.componentset import messages
from machine.componentset.batches import advance
from machine.componentset.budget import count_staying
from machine.componentset.member import IN_FLIGHT
from machine.componentset.order import newest_first
from machine.componentset.rollout import (
    AssignmentMove,
    BatchState,
    ConditionMessage,
    RolloutObservation,
    RolloutPlan,
    RolloutState,
)
from machine.componentset.turn import Turn


def step(
    before: RolloutState, strategy: UpdateStrategy, observation: RolloutObservation
) -> tuple[RolloutState, RolloutPlan]:
    """Return the state to store and the plan to carry out.

    strategy: the strategy of the spec, with defaults filled in.
    """
    rollout = released(aimed(before, observation), observation)
    rollout, observation = by_our_clock(rollout, strategy, observation)
    turn = Turn(rollout, strategy, observation)
    inspect, advancing = False, False
    message: ConditionMessage | None = None
    if not observation.members:
        phase = P.IDLE
    elif rollout.update in (rollout.current, rollout.rejected) and rollout.current:
        phase = _settle(turn)
    elif excess := _count_excess(turn):
        turn.back(newest_first(turn.new, rollout.update)[:excess])
        phase = P.ROLLING_BACK
    else:
        advancing = True
        rollout, phase, inspect, message = advance(turn)
        if rollout.stop is not None or rollout.rejected == rollout.update:
            turn.moves.clear()
    _serve_joiners(turn)
    turn.repair()
    rollout = replace(rollout, batch=_timed(rollout, turn))
    turn.rollout = rollout
    paused = messages.paused(rollout, observation)
    if paused is not None and phase is not P.COMPLETED:
        phase = P.PAUSED
    rollout = replace(rollout, phase=phase)
    return rollout, RolloutPlan(
        moves=tuple(turn.moves),
        allowed=turn.allowed(advancing),
        inspect=inspect,
        counts=turn.counts(),
        progressing=messages.progressing(rollout, observation, message),
        paused=paused,
        degraded=messages.degraded(rollout, turn),
        requeue_at=turn.find_next_timer,
    )


def by_our_clock(
    rollout: RolloutState, strategy: UpdateStrategy, observation: RolloutObservation
) -> tuple[RolloutState, RolloutObservation]:
    """Restart timers that an earlier leader's clock began, so that they run in full by this clock.

    Clocks of leaders may differ. Without this a bake could end early, and a batch or a machine
    could fail as late.
    """

    def begin(at: datetime | None, length: timedelta) -> datetime | None:
        return at and begin_by_our_clock(at, length, observation.now, observation.clock_since)

    batch, bake = rollout.batch, strategy.bake_time
    remaining = max(strategy.progress_deadline - batch.active_before, timedelta(0))
    batch = replace(batch, active_since=begin(batch.active_since, remaining))
    if (succeeded := begin(batch.succeeded_at, bake)) is not None and batch.bake_until is not None:
        batch = replace(batch, bake_until=max(batch.bake_until, succeeded + bake))
    members = [
        m if m.since is None else replace(m, since=begin(m.since, m.patience))
        for m in observation.members
    ]
    return replace(rollout, batch=batch), replace(observation, members=members)


def aimed(rollout: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Set the update revision to what the spec asks for. A new revision clears the batch and the
    stop.
    """
    if not observation.target or observation.target == rollout.update:
        return rollout
    return replace(rollout, update=observation.target, batch=BatchState(), stop=None)


def released(rollout: RolloutState, observation: RolloutObservation) -> RolloutState:
    """Clear an automatic stop while a person pauses the set, so that it continues after the pause.

    The progress deadline of a stopped batch starts anew; the count of inconclusive inspections does
    so in any case.
    """
    if not observation.paused:
        return rollout
    batch = replace(rollout.batch, inconclusive=0, active_since=None, inspected_at=None)
    if rollout.stop is not None:
        batch = replace(batch, active_before=BatchState().active_before)
    return replace(rollout, stop=None, batch=batch)


def _settle(turn: Turn) -> P:
    """Plan the return of machines to the current revision, and return the phase."""
    current = turn.rollout.current
    away = [m for m in turn.counted if m.revision and not turn.at(m, current)]
    outside = [m for m in away if m.rolled_back_from != current]
    inside = [m for m in turn.counted if turn.at(m, current)]
    turn.back(newest_first(outside, turn.rollout.update))
    if turn.may_start:
        turn.again(inside)
    undoes = (
        turn.rollout.update != current
        or turn.rollout.phase is P.ROLLING_BACK
        or any(m.batch for m in outside)
    )
    moving = any(m.standing in IN_FLIGHT and not m.drift and not m.late(turn.now) for m in inside)
    if outside or moving:
        return P.ROLLING_BACK if undoes else P.UPDATING
    return P.IDLE if turn.rollout.update != current else P.COMPLETED


def _count_excess(turn: Turn) -> int:
    """Return the number of machines at the new revision that exceed the partition (F44).

    0 while there is no current revision to which they could return.
    """
    if not turn.rollout.current:
        return 0
    total = len(turn.counted)
    return max(0, len(turn.new) - (total - count_staying(turn.strategy.partition, total)))


def _serve_joiners(turn: Turn) -> None:
    """Assign the current revision to members that have none, within window and disruption budget.

    A closed window does not hold back newcomers, as nothing runs there yet. While no revision has
    been completed, newcomers get the new revision at once and others wait for their batch.
    """
    if turn.barred:
        return
    rollout, observation = turn.rollout, turn.observation
    planned = {move.machine for move in turn.moves}
    for member in turn.joiners:
        if member.name in planned or member.open_job or not member.answers:
            continue
        if rollout.current:
            if not observation.returnable or not (observation.window or member.newcomer):
                continue
            if turn.budget.take(member):
                turn.moves.append(AssignmentMove(member.name, rollout.current))
        elif member.newcomer and turn.may_advance and rollout.update:
            turn.moves.append(AssignmentMove(member.name, rollout.update))


def _timed(rollout: RolloutState, turn: Turn) -> BatchState:
    """Return the batch with its progress timer running or stopped.

    The timer runs while the batch can progress: not while it is paused, held, or waits for permits.
    """
    batch, now = rollout.batch, turn.now
    runs = batch.open and turn.going and turn.may_advance and rollout.stop is None
    if runs and batch.active_since is None:
        return replace(batch, active_since=now)
    if not runs and batch.active_since is not None:
        return replace(batch, active_before=batch.active(now), active_since=None)
    return batch
