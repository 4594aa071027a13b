"""Messages of a set's conditions and Events.

They contain no value that changes with time, because each new message is a write.
"""

from collections.abc import Iterable, Sequence

from kubenode.api.meta import format_time
from kubenode.api.names import list_first
from kubenode.api.rollouts import SHOWN, RolloutReason, list_names
from kubenode.api.v1alpha1.machinecomponentset import RolloutPhase as P
from machine.componentset.member import MemberState, RolloutMember
from machine.componentset.rollout import (
    BatchState,
    ConditionMessage,
    RolloutObservation,
    RolloutState,
)
from machine.componentset.turn import Turn

_AT_WORK = (P.STAGING, P.UPDATING, P.INSPECTING, P.BAKING, P.ROLLING_BACK)
_STILL = {
    RolloutReason.WINDOW_CLOSED,
    RolloutReason.PARTITION_REACHED,
    RolloutReason.DEADLINE_EXCEEDED,
}
"""Reasons for which the condition Progressing is False."""


def _under_repair(members: Iterable[RolloutMember]) -> str:
    return f"under repair: {list_names(member.name for member in members)}"


def paused(rollout: RolloutState, observation: RolloutObservation) -> ConditionMessage | None:
    """Return the message of the condition Paused, None if the set is not paused."""
    if observation.paused:
        return ConditionMessage(RolloutReason.USER, "spec.paused: no batch starts")
    if rollout.stop is not None:
        return rollout.stop
    if observation.frozen:
        return ConditionMessage(RolloutReason.FROZEN, "spec.frozen: nothing is changed")
    return (
        ConditionMessage(RolloutReason.MELTDOWN, observation.meltdown)
        if observation.meltdown
        else None
    )


def progressing(
    rollout: RolloutState, observation: RolloutObservation, message: ConditionMessage | None
) -> tuple[bool, ConditionMessage]:
    """Return whether the condition Progressing is True, and its message."""
    phase = rollout.phase or P.IDLE
    stop = rollout.stop
    if stop is not None and "progressDeadline" in stop.message:
        return False, ConditionMessage(RolloutReason.DEADLINE_EXCEEDED, stop.message)
    if phase in _AT_WORK and not observation.window:
        return False, ConditionMessage(
            RolloutReason.WINDOW_CLOSED, "nothing new starts before the window opens"
        )
    if phase in _AT_WORK and observation.waits and (message is None or message.reason == phase):
        return True, ConditionMessage(RolloutReason.WAITING_FOR_PERMIT, _permits(observation.waits))
    if message is not None and phase is not P.PAUSED:
        return message.reason not in _STILL, message
    return phase in _AT_WORK, ConditionMessage(phase)


def _permits(waits: Sequence[tuple[str, str]]) -> str:
    machine, why = min(waits)
    more = f", and {len(waits) - 1} more" if len(waits) > 1 else ""
    return f"{machine}: {why}{more}"


def degraded(rollout: RolloutState, turn: Turn) -> ConditionMessage | None:
    """Return the message of the condition Degraded, None if the set is not degraded."""
    observation = turn.observation
    if observation.problem is not None:
        return observation.problem
    if observation.conflicts:
        what = f"another set has this component on {list_names(observation.conflicts)}"
        return ConditionMessage(RolloutReason.CONFLICT, what)
    if not observation.returnable and rollout.current:
        return ConditionMessage(
            RolloutReason.MISSING_COMPONENT,
            f"the MachineComponent of revision {rollout.current} is gone: nothing can return to it",
        )
    if rollout.update and rollout.update == rollout.rejected:
        return ConditionMessage(
            RolloutReason.ROLLED_BACK,
            f"revision {rollout.update} failed on {list_names(rollout.batch.failed)} and is not"
            " tried again: ask for another",
        )
    failed = [m for m in turn.counted if turn.final(m)]
    if failed:
        return ConditionMessage(RolloutReason.MACHINES_FAILED, list_names(m.name for m in failed))
    return not_removed(observation.stuck)


def not_removed(stuck: Sequence[str]) -> ConditionMessage | None:
    """Return the message about failed removals, None if there are none.

    stuck: names of machines from which the component cannot be removed.
    """
    if not stuck:
        return None
    return ConditionMessage(
        RolloutReason.MACHINES_FAILED, f"it cannot be removed from {list_names(stuck)}"
    )


def failures(turn: Turn, batch: BatchState, failed: Sequence[RolloutMember], *, late: bool) -> str:
    """Return why a batch stopped: its failed machines, each with the cause.

    late: the batch has exceeded progressDeadline.
    """
    members = sorted(failed, key=lambda m: m.name)
    text = list_first((f"{member.name} ({_why(turn, member)})" for member in members), SHOWN)
    if late:
        text = f"no end within progressDeadline{': ' + text if text else ''}"
    else:
        text = f"failed: {text}"
    return f"batch {batch.index} {text}; `kubenode component resume` tries again"


def _why(turn: Turn, member: RolloutMember) -> str:
    """Return why the machine has failed."""
    if member in turn.returned:
        return "a job took the component back"
    if member.open_job:
        return f"job {member.open_job} repairs its node"
    if not member.answers:
        return "its agent does not answer"
    if member.standing is MemberState.UNWELL:
        return "its Node is not Ready"
    if member.late(turn.now):
        return f"no end within machineTimeout{': ' if member.why else ''}{member.why}"
    return member.why or str(member.standing)


def partition(turn: Turn) -> str:
    """Return the message for a rollout that has reached its partition."""
    return f"{len(turn.new)} of {len(turn.counted)} are updated, the partition keeps the others"


def silent(members: Sequence[RolloutMember]) -> str:
    """Return the message that names the machines that do not answer."""
    return f"do not answer: {list_names(m.name for m in members if not m.answers)}"


def not_opened(turn: Turn, picks: Sequence[RolloutMember]) -> ConditionMessage:
    """Return why the next batch does not start."""
    if not turn.observation.window:
        return ConditionMessage(
            RolloutReason.WINDOW_CLOSED, "no batch starts before the window opens"
        )
    under_repair = [m for m in picks if m.open_job]
    if len(under_repair) == len(picks):
        return ConditionMessage(P.UPDATING, _under_repair(under_repair))
    if turn.budget.short:
        return ConditionMessage(P.UPDATING, _short(turn))
    return ConditionMessage(P.UPDATING)


def batch_waits(
    turn: Turn, unfinished: Sequence[RolloutMember], picks: Sequence[RolloutMember]
) -> ConditionMessage | None:
    """Return what an open batch waits for besides its own work, None for nothing."""
    under_repair = [m for m in picks if m.open_job]
    if under_repair and len(under_repair) == len(picks) and not unfinished:
        return ConditionMessage(P.UPDATING, _under_repair(under_repair))
    if turn.budget.short and not unfinished:
        return ConditionMessage(P.UPDATING, _short(turn))
    return None


def _short(turn: Turn) -> str:
    down = [m for m in turn.observation.members if m.down and not m.newcomer]
    names = list_names(m.name for m in down if m.name not in turn.excluded)
    return f"maxUnavailable or spread is used up by {names or 'the strategy itself'}"


def unsure(stale: float) -> ConditionMessage:
    """Return the message for a set that waits to know which agents are alive.

    stale: seconds without a renewed Lease after which an agent counts as dead.
    """
    why = "the operator has just started, or does not see their Leases"
    text = f"which agents live is not known yet: {why}; nothing starts for up to {stale:g} s"
    return ConditionMessage(RolloutReason.AGENTS_UNKNOWN, text)


def baking(batch: BatchState) -> ConditionMessage:
    """Return the message for a batch that bakes."""
    assert batch.bake_until is not None
    return ConditionMessage(P.BAKING, f"until {format_time(batch.bake_until)}")
