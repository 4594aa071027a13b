"""The end of a job: what is ours is undone first, and what must outlast it is kept. Pure."""

from kubenode.api.v1alpha1 import JobPhase
from remedy.job.model import INCIDENT_ENDS, Act, CloseReason, Job, Seen
from remedy.job.moves import Move, closed, wait
from remedy.job.permits import released
from remedy.job.superseding import handing_over
from remedy.job.undo import forget, undo
from remedy.job.words import answered
from rules.truth import Truth


def undoing(job: Job, seen: Seen, ending: CloseReason) -> Move:
    """Take off what is ours, in the order of its weight for the workloads, then close."""
    if (left := handing_over(job, seen) or undo(job, seen)) is not None:
        return left
    if job.status.permit is not None:
        job, act = released(job, seen)
        if act is not Act.NONE:
            return job, act
    return closed(forget(job), seen.now, ending)


def afterwards(job: Job, seen: Seen) -> Move:
    """A closed job lets go, remembers how long a person's word lasts, and is deleted in time."""
    if job.finalizer:
        return job, Act.REMOVE_FINALIZER
    if (said := answered(job, seen)) is not None:
        return said
    ended = job.status.timeline.closed
    if job.deleting or ended is None:
        return wait(job)
    if seen.now >= ended + job.spec.ttl_after_finished:
        return job, Act.DELETE
    since = job.status.evidence_false_since
    if not watched(job) or (since is not None and seen.now >= since + INCIDENT_ENDS):
        return wait(job)
    if seen.fault.evidence is Truth.FALSE and since is None:
        return job.having(evidence_false_since=seen.now), Act.NONE
    if seen.fault.evidence is not Truth.FALSE and since is not None:
        return job.having(evidence_false_since=None), Act.NONE
    return wait(job)


def watched(job: Job) -> bool:
    """Whether a closed job still follows the evidence: no other may follow while the incident
    lasts.
    """
    reason = job.close_reason
    return job.phase is not JobPhase.SHADOWED and reason is not None and reason.outlasts_the_job
