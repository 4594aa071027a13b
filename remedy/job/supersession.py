"""A job of a stronger rule supersedes a job that has done nothing irreversible yet. Pure.

    job of the weaker rule                          its successor
    ────────────────────────                        ─────────────────────────────
    a stronger rule matches, at a step boundary
    Closing: Superseded (written)
    undoes all of its changes but the cordon
    and the permit; then ─────────────────────────► created, names it in spec.supersedes
                                                    replaces the mark on the cordon
                                                    asks for a permit as its successor
    observes that cordon and permit are taken
    over or not needed, or HAND_OVER is over:
    undoes the rest, Cancelled

Each side decides on what it observes, never on what it asked for: either may crash at any time, and
a successor that never comes delays the first job by no more than HAND_OVER.
"""

from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import JobPhase
from remedy.job.created_objects import handed
from remedy.job.initialwait import unbegun
from remedy.job.model import CLOSING, CloseReason, Job, JobAct, JobObservation
from remedy.job.moves import Move, close, wait
from remedy.job.power_record import switched_off
from remedy.job.records import begun
from remedy.job.undo import owns_others, undo_others

SUCCESSION_TIMEOUT = timedelta(minutes=2)
"""Longest time for which the cordon and the permit are kept for a successor."""

WAITS = frozenset({JobPhase.AWAITING_APPROVAL, JobPhase.AWAITING_PERMIT, JobPhase.NEEDS_HUMAN})
ASKING = frozenset({JobPhase.PENDING, JobPhase.AWAITING_PERMIT})


def may_be_superseded(job: Job) -> bool:
    """Report whether the job has not begun, waits, migrates or waits for a person. It is never
    superseded between an irreversible request and its proof, nor while the node is fenced, we
    switched its machine off or another system works on it.
    """
    if job.spec.remedier is None or job.close_reason is not None or job.status.owned.fenced:
        return False
    if switched_off(job):
        return False
    if job.phase is JobPhase.RUNNING:
        return not job.in_flight and not begun(job) and not handed(job)
    return job.phase in WAITS or unbegun(job)


def superseded(job: Job, observation: JobObservation) -> Move | None:
    """Close the job as superseded; None if no stronger rule matches or it must not be superseded
    now.
    """
    if not observation.stronger or not may_be_superseded(job):
        return None
    why = f"superseded: rule {observation.stronger} is stronger"
    return close(job, observation.now, CloseReason.SUPERSEDED, why)


def allows_successor(job: Job) -> bool:
    """Report whether the successor of the job may be created."""
    return (
        job.close_reason is CloseReason.SUPERSEDED
        and not job.phase.closed
        and not owns_others(job, JobAct.UNCORDON)
    )


def await_successor(job: Job, observation: JobObservation) -> Move | None:
    """Undo all but the cordon and wait for the successor; None: the rest may be undone now."""
    if job.close_reason is not CloseReason.SUPERSEDED:
        return None
    if (others := undo_others(job, observation, JobAct.UNCORDON)) is not None:
        return others
    return None if _is_succession_done(job, observation) else wait(job)


def _is_succession_done(job: Job, observation: JobObservation) -> bool:
    """Report whether nothing has to be kept for the successor any more."""
    if observation.now >= await_successor_until(job) or observation.node is None:
        return True
    after = observation.successor
    if after is None or after.phase.closed:
        return after is not None
    if job.status.owned.cordon and observation.node.cordoned_by == job.mark:
        return False
    wants_permit = after.status.permit is None and after.phase in ASKING
    return job.status.permit is None or not wants_permit


def await_successor_until(job: Job) -> datetime:
    """Return until when the cordon and the permit are kept for a successor."""
    closing = job.condition(CLOSING)
    since = closing.last_transition_time if closing is not None else job.created
    return since + SUCCESSION_TIMEOUT


def adopt_cordon_mark(job: Job, observation: JobObservation) -> Move | None:
    """Replace the superseded job's mark on the cordon by ours; None: there is nothing
    to take over.
    """
    node, before = observation.node, job.spec.supersedes
    if node is None or not before or node.cordoned_by != before or not node.unschedulable:
        return None
    if not job.status.owned.cordon:
        return job.having(owned=job.status.owned.model_copy(update={"cordon": True})), JobAct.NONE
    return job, JobAct.ADOPT_CORDON if job.finalizer else JobAct.ADD_FINALIZER
