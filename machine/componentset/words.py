"""What a set says of itself, in sentences that hold no ticking value: each new one is a write."""

from collections.abc import Iterable, Sequence

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.machinecomponentset import RolloutPhase as P
from machine.componentset.member import Member, Standing
from machine.componentset.rollout import Batch, Reason, Rollout, Said, Seen
from machine.componentset.turn import Turn

SHOWN = 5
_AT_WORK = (P.STAGING, P.UPDATING, P.INSPECTING, P.BAKING, P.ROLLING_BACK)
_STILL = {
    Reason.WINDOW_CLOSED,
    Reason.PARTITION_REACHED,
    Reason.DEADLINE_EXCEEDED,
}


def named(names: Iterable[str]) -> str:
    """Some of them, and how many more."""
    all_ = sorted(names)
    more = len(all_) - SHOWN
    return ", ".join(all_[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def paused(rollout: Rollout, seen: Seen) -> Said | None:
    if seen.paused:
        return Said(Reason.USER, "spec.paused: no batch starts")
    if rollout.stop is not None:
        return rollout.stop
    if seen.frozen:
        return Said(Reason.FROZEN, "spec.frozen: nothing is changed")
    return Said(Reason.MELTDOWN, seen.meltdown) if seen.meltdown else None


def progressing(rollout: Rollout, seen: Seen, said: Said | None) -> tuple[bool, Said]:
    phase = rollout.phase or P.IDLE
    stop = rollout.stop
    if stop is not None and "progressDeadline" in stop.message:
        return False, Said(Reason.DEADLINE_EXCEEDED, stop.message)
    if phase in _AT_WORK and not seen.window:
        return False, Said(Reason.WINDOW_CLOSED, "nothing new starts before the window opens")
    if phase in _AT_WORK and seen.waits and (said is None or said.reason == phase):
        return True, Said(Reason.WAITING_FOR_PERMIT, _permits(seen.waits))
    if said is not None and phase is not P.PAUSED:
        return said.reason not in _STILL, said
    return phase in _AT_WORK, Said(phase)


def _permits(waits: Sequence[tuple[str, str]]) -> str:
    machine, why = min(waits)
    more = f", and {len(waits) - 1} more" if len(waits) > 1 else ""
    return f"{machine}: {why}{more}"


def degraded(rollout: Rollout, turn: Turn) -> Said | None:
    seen = turn.seen
    if seen.problem is not None:
        return seen.problem
    if seen.conflicts:
        what = f"another set has this component on {named(seen.conflicts)}"
        return Said(Reason.CONFLICT, what)
    if not seen.returnable and rollout.current:
        return Said(
            Reason.MISSING_COMPONENT,
            f"the MachineComponent of revision {rollout.current} is gone: nothing can return to it",
        )
    if rollout.update and rollout.update == rollout.rejected:
        return Said(
            Reason.ROLLED_BACK,
            f"revision {rollout.update} failed on {named(rollout.batch.failed)} and is not tried"
            " again: ask for another",
        )
    failed = [m for m in turn.counted if turn.final(m)]
    if failed:
        return Said(Reason.MACHINES_FAILED, named(m.name for m in failed))
    return not_removed(seen.stuck)


def not_removed(stuck: Sequence[str]) -> Said | None:
    """stuck: names of machines that are to lose the component and cannot."""
    if not stuck:
        return None
    return Said(Reason.MACHINES_FAILED, f"it cannot be removed from {named(stuck)}")


def failures(turn: Turn, batch: Batch, failed: Sequence[Member], *, late: bool) -> str:
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


def _why(turn: Turn, member: Member) -> str:
    if member in turn.returned:
        return "a job took the component back"
    if member.held:
        return f"job {member.held} repairs its node"
    if not member.answers:
        return "its agent does not answer"
    if member.standing is Standing.UNWELL:
        return "its Node is not Ready"
    if member.late(turn.now):
        return f"no end within machineTimeout{': ' if member.why else ''}{member.why}"
    return member.why or str(member.standing)


def partition(turn: Turn) -> str:
    return f"{len(turn.new)} of {len(turn.counted)} are updated, the partition keeps the others"


def silent(members: Sequence[Member]) -> str:
    return f"do not answer: {named(m.name for m in members if not m.answers)}"


def not_opened(turn: Turn, picks: Sequence[Member]) -> Said:
    """Why the next batch does not start."""
    if not turn.seen.window:
        return Said(Reason.WINDOW_CLOSED, "no batch starts before the window opens")
    held = [m for m in picks if m.held]
    if len(held) == len(picks):
        return Said(P.UPDATING, f"under repair: {named(m.name for m in held)}")
    if turn.budget.short:
        return Said(P.UPDATING, _short(turn))
    return Said(P.UPDATING)


def batch_waits(turn: Turn, unfinished: Sequence[Member], picks: Sequence[Member]) -> Said | None:
    """What an open batch waits for beside its own work."""
    held = [m for m in picks if m.held]
    if held and len(held) == len(picks) and not unfinished:
        return Said(P.UPDATING, f"under repair: {named(m.name for m in held)}")
    if turn.budget.short and not unfinished:
        return Said(P.UPDATING, _short(turn))
    return None


def _short(turn: Turn) -> str:
    down = [m for m in turn.seen.members if m.down and not m.newcomer]
    names = named(m.name for m in down if m.name not in turn.excluded)
    return f"maxUnavailable or spread is used up by {names or 'the strategy itself'}"


def unsure(stale: float) -> Said:
    """stale: seconds after which an agent that says nothing counts as dead."""
    why = "the operator has just started, or does not see their Leases"
    text = f"which agents live is not known yet: {why}; nothing starts for up to {stale:g} s"
    return Said(Reason.AGENTS_UNKNOWN, text)


def baking(batch: Batch) -> Said:
    assert batch.bake_until is not None
    return Said(P.BAKING, f"until {format_time(batch.bake_until)}")
