"""The end of a job: first undo its own changes, then keep what later decisions need. Pure."""

from kubenode.api.v1alpha1 import JobPhase
from remedy.job.decisions import answered
from remedy.job.model import CloseReason, Job, JobAct, JobObservation
from remedy.job.moves import Move, closed, wait
from remedy.job.permits import released
from remedy.job.supersession import await_successor
from remedy.job.undo import forget, undo


def undoing(job: Job, observation: JobObservation, ending: CloseReason) -> Move:
    """Undo the job's own changes in the fixed order of remedy.job.undo, release the permit, then
    close.
    """
    if (move := await_successor(job, observation) or undo(job, observation)) is not None:
        return move
    if job.status.permit is not None:
        job, act = released(job, observation)
        if act is not JobAct.NONE:
            return job, act
    return closed(forget(job), observation.now, ending)


def afterwards(job: Job, observation: JobObservation) -> Move:
    """Remove the finalizer of a closed job once the node record holds what counts, and delete the
    job after its TTL. A job of a rule in DryRun, from earlier versions, and a job beyond the newest
    of its node are deleted at once.
    """
    if not observation.recorded:
        return wait(job)
    if job.finalizer:
        return job, JobAct.REMOVE_FINALIZER
    if (move := answered(job, observation)) is not None:
        return move
    ended = job.status.timeline.closed
    if job.deleting or ended is None:
        return wait(job)
    of_a_rule = job.phase is JobPhase.SHADOWED and job.spec.remedier is not None
    if (
        of_a_rule
        or observation.outnumbered
        or observation.now >= ended + job.spec.ttl_after_finished
    ):
        return job, JobAct.DELETE
    return wait(job)


def watched(job: Job) -> bool:
    """Report whether no other job may follow a closed one while its incident lasts."""
    reason = job.close_reason
    return job.phase is not JobPhase.SHADOWED and reason is not None and reason.outlasts_the_job
