"""What a set says of itself, in sentences that hold no ticking value: each new one is a write."""

from collections.abc import Iterable, Sequence

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.machinecomponentset import RolloutPhase as P
from machine.componentset.member import MemberState, RolloutMember
from machine.componentset.rollout import (
    BatchState,
    ConditionMessage,
    RolloutObservation,
    RolloutReason,
    RolloutState,
)
from machine.componentset.turn import Turn

SHOWN = 5
_AT_WORK = (P.STAGING, P.UPDATING, P.INSPECTING, P.BAKING, P.ROLLING_BACK)
_STILL = {
    RolloutReason.WINDOW_CLOSED,
    RolloutReason.PARTITION_REACHED,
    RolloutReason.DEADLINE_EXCEEDED,
}


def named(names: Iterable[str]) -> str:
    """Some of them, and how many more."""
    all_ = sorted(names)
    more = len(all_) - SHOWN
    return ", ".join(all_[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def paused(rollout: RolloutState, seen: RolloutObservation) -> ConditionMessage | None:
    if seen.paused:
        return ConditionMessage(RolloutReason.USER, "spec.paused: no batch starts")
    if rollout.stop is not None:
        return rollout.stop
    if seen.frozen:
        return ConditionMessage(RolloutReason.FROZEN, "spec.frozen: nothing is changed")
    return ConditionMessage(RolloutReason.MELTDOWN, seen.meltdown) if seen.meltdown else None


def progressing(
    rollout: RolloutState, seen: RolloutObservation, said: ConditionMessage | None
) -> tuple[bool, ConditionMessage]:
    phase = rollout.phase or P.IDLE
    stop = rollout.stop
    if stop is not None and "progressDeadline" in stop.message:
        return False, ConditionMessage(RolloutReason.DEADLINE_EXCEEDED, stop.message)
    if phase in _AT_WORK and not seen.window:
        return False, ConditionMessage(
            RolloutReason.WINDOW_CLOSED, "nothing new starts before the window opens"
        )
    if phase in _AT_WORK and seen.waits and (said is None or said.reason == phase):
        return True, ConditionMessage(RolloutReason.WAITING_FOR_PERMIT, _permits(seen.waits))
    if said is not None and phase is not P.PAUSED:
        return said.reason not in _STILL, said
    return phase in _AT_WORK, ConditionMessage(phase)


def _permits(waits: Sequence[tuple[str, str]]) -> str:
    machine, why = min(waits)
    more = f", and {len(waits) - 1} more" if len(waits) > 1 else ""
    return f"{machine}: {why}{more}"


def degraded(rollout: RolloutState, turn: Turn) -> ConditionMessage | None:
    seen = turn.seen
    if seen.problem is not None:
        return seen.problem
    if seen.conflicts:
        what = f"another set has this component on {named(seen.conflicts)}"
        return ConditionMessage(RolloutReason.CONFLICT, what)
    if not seen.returnable and rollout.current:
        return ConditionMessage(
            RolloutReason.MISSING_COMPONENT,
            f"the MachineComponent of revision {rollout.current} is gone: nothing can return to it",
        )
    if rollout.update and rollout.update == rollout.rejected:
        return ConditionMessage(
            RolloutReason.ROLLED_BACK,
            f"revision {rollout.update} failed on {named(rollout.batch.failed)} and is not tried"
            " again: ask for another",
        )
    failed = [m for m in turn.counted if turn.final(m)]
    if failed:
        return ConditionMessage(RolloutReason.MACHINES_FAILED, named(m.name for m in failed))
    return not_removed(seen.stuck)


def not_removed(stuck: Sequence[str]) -> ConditionMessage | None:
    """stuck: names of machines that are to lose the component and cannot."""
    if not stuck:
        return None
    return ConditionMessage(
        RolloutReason.MACHINES_FAILED, f"it cannot be removed from {named(stuck)}"
    )


def failures(turn: Turn, batch: BatchState, failed: Sequence[RolloutMember], *, late: bool) -> str:
    """What stopped a batch."""
    each = []
    for member in sorted(failed, key=lambda m: m.name)[:SHOWN]:
        each.append(f"{member.name} ({_why(turn, member)})")
    more = len(failed) - SHOWN
    text = ", ".join(each) + (f" and {more} more" if more > 0 else "")
    if late:
        text = f"no end within progressDeadline{': ' + text if text else ''}"
    else:
        text = f"failed: {text}"
    return f"batch {batch.index} {text}; `kubenode component resume` tries again"


def _why(turn: Turn, member: RolloutMember) -> str:
    if member in turn.returned:
        return "a job took the component back"
    if member.held:
        return f"job {member.held} repairs its node"
    if not member.answers:
        return "its agent does not answer"
    if member.standing is MemberState.UNWELL:
        return "its Node is not Ready"
    if member.late(turn.now):
        return f"no end within machineTimeout{': ' if member.why else ''}{member.why}"
    return member.why or str(member.standing)


def partition(turn: Turn) -> str:
    return f"{len(turn.new)} of {len(turn.counted)} are updated, the partition keeps the others"


def silent(members: Sequence[RolloutMember]) -> str:
    return f"do not answer: {named(m.name for m in members if not m.answers)}"


def not_opened(turn: Turn, picks: Sequence[RolloutMember]) -> ConditionMessage:
    """Why the next batch does not start."""
    if not turn.seen.window:
        return ConditionMessage(
            RolloutReason.WINDOW_CLOSED, "no batch starts before the window opens"
        )
    held = [m for m in picks if m.held]
    if len(held) == len(picks):
        return ConditionMessage(P.UPDATING, f"under repair: {named(m.name for m in held)}")
    if turn.budget.short:
        return ConditionMessage(P.UPDATING, _short(turn))
    return ConditionMessage(P.UPDATING)


def batch_waits(
    turn: Turn, unfinished: Sequence[RolloutMember], picks: Sequence[RolloutMember]
) -> ConditionMessage | None:
    """What an open batch waits for beside its own work."""
    held = [m for m in picks if m.held]
    if held and len(held) == len(picks) and not unfinished:
        return ConditionMessage(P.UPDATING, f"under repair: {named(m.name for m in held)}")
    if turn.budget.short and not unfinished:
        return ConditionMessage(P.UPDATING, _short(turn))
    return None


def _short(turn: Turn) -> str:
    down = [m for m in turn.seen.members if m.down and not m.newcomer]
    names = named(m.name for m in down if m.name not in turn.excluded)
    return f"maxUnavailable or spread is used up by {names or 'the strategy itself'}"


def unsure(stale: float) -> ConditionMessage:
    """stale: seconds after which an agent that says nothing counts as dead."""
    why = "the operator has just started, or does not see their Leases"
    text = f"which agents live is not known yet: {why}; nothing starts for up to {stale:g} s"
    return ConditionMessage(RolloutReason.AGENTS_UNKNOWN, text)


def baking(batch: BatchState) -> ConditionMessage:
    assert batch.bake_until is not None
    return ConditionMessage(P.BAKING, f"until {format_time(batch.bake_until)}")
