"""Move a rollout forward in batches: open, wait for health, inspect, bake, inspect again, end."""

from collections.abc import Sequence
from dataclasses import replace

from kubenode.api.rollouts import RolloutReason
from kubenode.api.v1alpha1.machinecomponentset import FailurePolicy
from kubenode.api.v1alpha1.machinecomponentset import RolloutPhase as P
from machine.componentset import messages
from machine.componentset.budget import count_staying, part_of, size_of
from machine.componentset.member import MemberState, RolloutMember
from machine.componentset.order import forward
from machine.componentset.rollout import AssignmentMove, BatchState, ConditionMessage, RolloutState
from machine.componentset.turn import Turn
from machine.inspection.port import InspectionAnswer, InspectionResult

Advanced = tuple[RolloutState, P, bool, ConditionMessage | None]
"""The next state, the phase, whether an inspection is due, and the message of the condition
Progressing, None for the default one.
"""
FAILED_SHOWN = 32
"""Greatest number of failed machines to store in the status."""
_CALM = (MemberState.NONE, MemberState.SUCCEEDED, MemberState.AHEAD)
"""States in which a machine may download the next revision."""


def advance(turn: Turn) -> Advanced:
    """Advance the open batch, or open the next one. Retry failed members of earlier batches."""
    batch = turn.rollout.batch
    if turn.may_advance:
        turn.again(m for m in turn.new if not (batch.open and m.batch == batch.index))
    return _go_on(turn) if batch.open else _open(turn)


def _room(turn: Turn) -> int:
    """Return how many more machines may get the new revision before the partition is reached."""
    total = len(turn.counted)
    return max(0, total - count_staying(turn.strategy.partition, total) - len(turn.new))


def _candidates(turn: Turn, index: int) -> list[RolloutMember]:
    """Return the members that may get the new revision next, in order.

    Members without a revision get the current revision instead, if there is one. Only the first
    batch may include one of them, as the machine that never had the component.
    """
    candidates = [m for m in turn.old if m.answers]
    joiners = [m for m in turn.joiners if m.answers]
    if not turn.rollout.current:
        candidates += joiners
    elif index == 1 and not any(m.fresh for m in candidates):
        candidates += forward(joiners, turn.rollout.update, turn.counted, first=True)[:1]
    return forward(candidates, turn.rollout.update, turn.counted, first=index == 1)


def _open(turn: Turn) -> Advanced:
    """Open the next batch, or complete the rollout if no machine is left."""
    rollout, last = turn.rollout, turn.rollout.batch
    index = last.index + 1 if last.ended_at is not None else max(1, last.index)
    candidates, room = _candidates(turn, index), _room(turn)
    if not candidates and not turn.old and turn.new and (not turn.joiners or rollout.current):
        return replace(rollout, current=rollout.update, stop=None), P.COMPLETED, False, None
    if room == 0:
        return (
            rollout,
            P.IDLE,
            False,
            ConditionMessage(RolloutReason.PARTITION_REACHED, messages.partition(turn)),
        )
    size = min(room, size_of(turn.strategy, index, len(turn.counted)))
    picks = candidates[:size]
    if not picks:
        return (
            rollout,
            P.IDLE,
            False,
            ConditionMessage(P.UPDATING, messages.silent(turn.old + turn.joiners)),
        )
    batch = BatchState(index=index, size=len(picks), started_at=turn.now)
    if not turn.may_advance or not _give(turn, picks, batch):
        return rollout, P.IDLE, False, messages.not_opened(turn, picks)
    turn.going = True
    return replace(rollout, batch=batch), P.STAGING, False, None


def _give(turn: Turn, picks: Sequence[RolloutMember], batch: BatchState) -> int:
    """Assign the new revision to the picks that may change now, and return how many did."""
    given = 0
    for member in picks:
        if member.open_job or member.busy(turn.now) or not turn.budget.take(member):
            continue
        turn.moves.append(AssignmentMove(member.name, turn.rollout.update, batch.index))
        given += 1
    return given


def _ahead(turn: Turn, batch: BatchState) -> None:
    """Let the next batch download its revision while this one is inspected and bakes."""
    if not turn.strategy.pre_stage or not turn.may_advance:
        return
    size = min(_room(turn), size_of(turn.strategy, batch.index + 1, len(turn.counted)))
    for member in _candidates(turn, batch.index + 1)[:size]:
        there = member.revision == turn.rollout.update and member.standing is MemberState.AHEAD
        if member.standing in _CALM and not member.open_job and (member.stale or not there):
            turn.moves.append(
                AssignmentMove(member.name, turn.rollout.update, batch.index + 1, ahead=True)
            )


def _go_on(turn: Turn) -> Advanced:
    """Advance the open batch: retry and assign, or stop it, or go on to inspection and bake
    time.
    """
    rollout, now, strategy = turn.rollout, turn.now, turn.strategy
    batch = rollout.batch
    mine = [m for m in (*turn.new, *turn.returned) if m.batch == batch.index]
    slots = max(0, min(batch.size - len(mine), _room(turn)))
    picks = _candidates(turn, batch.index)[:slots] if slots else []
    late = batch.active(now) >= strategy.progress_deadline
    if batch.active_since is not None:
        turn.schedule_step(batch.active_since + (strategy.progress_deadline - batch.active_before))
    failed = [m for m in mine if _failed(turn, m, late)]
    late = late and bool(picks or failed)
    if (stopped := _judge(turn, batch, failed, late=late)) is not None:
        return stopped
    if turn.may_advance:
        turn.again(mine, also_final=_resumed(turn, batch, failed))
        _give(turn, picks, batch)
    batch = replace(batch, failed=_names(failed))
    unfinished = [m for m in mine if m.standing is not MemberState.SUCCEEDED and m not in failed]
    tried = [m for m in failed if m not in turn.returned]
    if not unfinished and not picks and not _resumed(turn, batch, tried):
        return _prove(turn, batch)
    turn.going = any(m.standing is not MemberState.WAITING for m in unfinished) or any(
        not m.open_job for m in picks
    )
    batch = replace(batch, succeeded_at=None, bake_until=None, inspected_at=None)
    begun = any(m.standing not in (MemberState.PENDING, MemberState.WAITING) for m in mine)
    phase = P.UPDATING if begun else P.STAGING
    return (
        replace(rollout, batch=batch),
        phase,
        False,
        messages.batch_waits(turn, unfinished, picks),
    )


def _failed(turn: Turn, member: RolloutMember, late: bool) -> bool:
    """Return whether the member counts as failed in the batch.

    late: the batch has exceeded progressDeadline, so every member that has not succeeded has
        failed.
    """
    if member in turn.returned or turn.final(member) or member.open_job or member.ill(turn.now):
        return True
    return late and member.standing is not MemberState.SUCCEEDED


def _names(members: Sequence[RolloutMember]) -> tuple[str, ...]:
    return tuple(m.name for m in members)[:FAILED_SHOWN]


def _exceeds_failures(turn: Turn, batch: BatchState, failed: Sequence[RolloutMember]) -> bool:
    """Return whether the failures reach maxFailures of the strategy."""
    return len(failed) >= max(1, part_of(turn.strategy.auto_pause.max_failures, batch.size))


def _resumed(turn: Turn, batch: BatchState, failed: Sequence[RolloutMember]) -> bool:
    """Return whether a person resumed a batch that these failures had stopped. Each is then
    retried.

    The status stores at most FAILED_SHOWN names. If it is full, any member counts as known.
    """
    known = batch.failed
    named = len(known) == FAILED_SHOWN or {m.name for m in failed} <= set(known)
    stops = turn.strategy.failure_policy is not FailurePolicy.CONTINUE
    return stops and named and _exceeds_failures(turn, batch, failed) and turn.rollout.stop is None


def _judge(
    turn: Turn, batch: BatchState, failed: Sequence[RolloutMember], *, late: bool
) -> Advanced | None:
    """Stop or roll back if too many members failed or the batch is late. Return None to
    continue.
    """
    rollout, policy = turn.rollout, turn.strategy.failure_policy
    if rollout.stop is not None:
        return rollout, P.UPDATING, False, None
    if not (late or _exceeds_failures(turn, batch, failed)) or policy is FailurePolicy.CONTINUE:
        return None
    if not late and _resumed(turn, batch, failed):
        return None
    message = ConditionMessage(
        RolloutReason.AUTO_PAUSED, messages.failures(turn, batch, failed, late=late)
    )
    return fail(rollout, replace(batch, failed=_names(failed)), message, policy)


def fail(
    rollout: RolloutState, batch: BatchState, message: ConditionMessage, policy: FailurePolicy
) -> Advanced:
    """Reject the revision if the policy is Rollback and there is a current one, else stop the
    rollout.
    """
    batch = replace(batch, succeeded_at=None, bake_until=None, inspected_at=None)
    if policy is FailurePolicy.ROLLBACK and rollout.current:
        after = replace(rollout, batch=batch, rejected=rollout.update, stop=None)
        return after, P.ROLLING_BACK, False, message
    return replace(rollout, batch=batch, stop=message), P.UPDATING, False, None


def _prove(turn: Turn, batch: BatchState) -> Advanced:
    """Inspect a batch whose members are all well, let it bake until a stored time, and inspect
    again.
    """
    rollout, now, bake = turn.rollout, turn.now, turn.strategy.bake_time
    if rollout.stop is not None:
        return rollout, P.INSPECTING, False, None
    since = min(batch.succeeded_at or now, now)
    batch = replace(batch, succeeded_at=since)
    if batch.bake_until is None:
        stopped, batch, due = _inspect(turn, batch)
        if stopped is not None:
            return stopped
        if not _passed(turn):
            return replace(rollout, batch=batch), P.INSPECTING, due, None
        batch = replace(batch, bake_until=since + bake, inspected_at=None, inconclusive=0)
        if turn.strategy.inspection.checks:
            # The answer at hand is from before the bake; ask again after it.
            return replace(rollout, batch=batch), P.BAKING, False, messages.baking(batch)
    _ahead(turn, batch)
    # Bound by the bake time: a clock set back must not prolong the bake.
    until = min(batch.bake_until or now, now + bake)
    batch = replace(batch, bake_until=until)
    if now < until:
        turn.schedule_step(until)
        return replace(rollout, batch=batch), P.BAKING, False, messages.baking(batch)
    stopped, batch, due = _inspect(turn, batch)
    if stopped is not None:
        return stopped
    if not _passed(turn):
        return replace(rollout, batch=batch), P.INSPECTING, due, None
    return _end(turn, replace(batch, ended_at=now, inconclusive=0))


def _end(turn: Turn, batch: BatchState) -> Advanced:
    """End the batch and open the next one at once, or complete the rollout."""
    turn.rollout = replace(turn.rollout, batch=batch)
    turn.moves.clear()
    return _open(turn)


def _passed(turn: Turn) -> bool:
    """Return whether the inspection permits the batch to continue.

    True without checks, and with policy Continue also after a failure. False without an answer.
    """
    if not turn.strategy.inspection.checks:
        return True
    answer = turn.observation.inspected
    if answer is None:
        return False
    on = (
        turn.strategy.failure_policy is FailurePolicy.CONTINUE
        and answer.judged is InspectionResult.FAILED
    )
    return on or answer.judged is InspectionResult.PASSED


def _inspect(turn: Turn, batch: BatchState) -> tuple[Advanced | None, BatchState, bool]:
    """Return the outcome that stops the set or None, the batch, and whether an inspection is
    due.
    """
    inspection, now = turn.strategy.inspection, turn.now
    if not inspection.checks or not turn.may_start:
        return None, batch, False
    answer = turn.observation.inspected
    if answer is None:
        inspected_at = batch.inspected_at
        due = inspected_at is None or now >= min(inspected_at, now) + inspection.interval
        if inspected_at is not None:
            turn.schedule_step(inspected_at + inspection.interval)
        return None, batch, due
    turn.schedule_step(now + inspection.interval)
    return _answered(turn, batch, answer)


def _answered(
    turn: Turn, batch: BatchState, answer: InspectionAnswer
) -> tuple[Advanced | None, BatchState, bool]:
    """Return the same as `_inspect`, for the answer of an inspection."""
    rollout, policy = turn.rollout, turn.strategy.failure_policy
    match answer.judged:
        case InspectionResult.PENDING:
            return None, batch, False
        case InspectionResult.PASSED:
            return None, replace(batch, inconclusive=0), False
        case InspectionResult.FAILED if policy is not FailurePolicy.CONTINUE:
            message = ConditionMessage(
                RolloutReason.INSPECTION_FAILED, f"batch {batch.index}: {answer.message}"
            )
            return fail(rollout, batch, message, policy), batch, False
        case InspectionResult.FAILED:
            return None, batch, False
        case InspectionResult.INCONCLUSIVE:
            batch = replace(batch, inconclusive=batch.inconclusive + 1, inspected_at=turn.now)
            if batch.inconclusive < turn.strategy.inspection.inconclusive_limit:
                return None, batch, False
            message = ConditionMessage(
                RolloutReason.INCONCLUSIVE, f"batch {batch.index}: {answer.message}"
            )
            return fail(rollout, batch, message, FailurePolicy.PAUSE), batch, False
