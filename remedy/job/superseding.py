"""How a stronger rule takes a node over from a job that has done nothing yet that binds it. Pure.

    job of the weaker rule                          its successor
    ────────────────────────                        ─────────────────────────────
    a stronger rule matches, at a step boundary
    Closing: Superseded (written)
    all of its own is taken off but the cordon
    and the permit; then ─────────────────────────► made, names it in spec.supersedes
                                                    puts its mark in place of the other
                                                    asks for a permit as its successor
    cordon and permit seen to be taken over,
    or not wanted, or HAND_OVER is over:
    what is still its own is undone, Cancelled

Each side looks at what is, never at what it asked for: either may die at any moment, and a
successor that never comes costs the first job no more than HAND_OVER.
"""

from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import JobPhase
from remedy.job.handing import handed
from remedy.job.initialwait import unbegun
from remedy.job.model import CLOSING, CloseReason, Job, JobAct, JobObservation
from remedy.job.moves import Move, close, wait
from remedy.job.power_record import switched_off
from remedy.job.records import begun
from remedy.job.undo import owns_others, undo_others

HAND_OVER = timedelta(minutes=2)
"""For how long cordon and permit are kept for a successor."""

WAITS = frozenset({JobPhase.AWAITING_APPROVAL, JobPhase.AWAITING_PERMIT, JobPhase.NEEDS_HUMAN})
ASKING = frozenset({JobPhase.PENDING, JobPhase.AWAITING_PERMIT})


def may_be_superseded(job: Job) -> bool:
    """Whether it has not begun, waits, migrates or waits for a person: never between asking for
    what cannot be undone and its proof, nor while the node is fenced, its machine is off by our
    wish or another remediator works on it.
    """
    if job.spec.remedier is None or job.close_reason is not None or job.status.owned.fenced:
        return False
    if switched_off(job):
        return False
    if job.phase is JobPhase.RUNNING:
        return not job.in_flight and not begun(job) and not handed(job)
    return job.phase in WAITS or unbegun(job)


def superseded(job: Job, seen: JobObservation) -> Move | None:
    if not seen.stronger or not may_be_superseded(job):
        return None
    why = f"superseded: rule {seen.stronger} is stronger"
    return close(job, seen.now, CloseReason.SUPERSEDED, why)


def hands_over(job: Job) -> bool:
    """Whether its successor may be made."""
    return (
        job.close_reason is CloseReason.SUPERSEDED
        and not job.phase.closed
        and not owns_others(job, JobAct.UNCORDON)
    )


def handing_over(job: Job, seen: JobObservation) -> Move | None:
    """None: what is still its own may be undone now."""
    if job.close_reason is not CloseReason.SUPERSEDED:
        return None
    if (others := undo_others(job, seen, JobAct.UNCORDON)) is not None:
        return others
    return None if _handed_over(job, seen) else wait(job)


def _handed_over(job: Job, seen: JobObservation) -> bool:
    if seen.now >= hand_over_until(job) or seen.node is None:
        return True
    after = seen.successor
    if after is None or after.phase.closed:
        return after is not None
    if job.status.owned.cordon and seen.node.cordoned_by == job.mark:
        return False
    wants_permit = after.status.permit is None and after.phase in ASKING
    return job.status.permit is None or not wants_permit


def hand_over_until(job: Job) -> datetime:
    closing = job.condition(CLOSING)
    since = closing.last_transition_time if closing is not None else job.created
    return since + HAND_OVER


def taking_over(job: Job, seen: JobObservation) -> Move | None:
    """Put our mark in place of the superseded job's; None: there is nothing to take over."""
    node, before = seen.node, job.spec.supersedes
    if node is None or not before or node.cordoned_by != before or not node.unschedulable:
        return None
    if not job.status.owned.cordon:
        return job.having(owned=job.status.owned.model_copy(update={"cordon": True})), JobAct.NONE
    return job, JobAct.TAKE_OVER if job.finalizer else JobAct.ADD_FINALIZER
