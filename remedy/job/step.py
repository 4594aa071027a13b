"""Decides what one job does next. Pure: the same job and observation give the same answer.

Each call either changes the status or chooses one act, never both (remedy.job.moves). The order of
the guard clauses is the policy: a closed job stays closed; a job that ends first undoes its own
changes; a person's decision and a vanished node come before the job's own plan; nothing interrupts
a job between a request to a host and its outcome.
"""

from kubenode.api.v1alpha1 import Disruption, HoldReason, JobPhase, Mode
from kubenode.api.v1alpha1.remedyoperationjob import StepState
from remedy.job import planned_events
from remedy.job.conclusion import afterwards, undoing
from remedy.job.decisions import answered
from remedy.job.initialwait import waiting
from remedy.job.model import CloseReason, Job, JobAct, JobObservation, NodeSeen
from remedy.job.moves import Move, close, enter, hold, timed
from remedy.job.people import awaiting_approval, needs_human
from remedy.job.permits import awaiting_permit, renewed
from remedy.job.rung import running
from remedy.job.supersession import superseded, taking_over
from remedy.job.undo import adopted
from remedy.job.verification import verifying

Phase = JobPhase

EDGES: dict[Phase, set[Phase]] = {
    Phase.PENDING: {
        Phase.AWAITING_APPROVAL,
        Phase.AWAITING_PERMIT,
        Phase.RUNNING,
        Phase.SHADOWED,
        Phase.CANCELLED,
    },
    Phase.AWAITING_APPROVAL: {Phase.AWAITING_PERMIT, Phase.CANCELLED},
    Phase.AWAITING_PERMIT: {Phase.RUNNING, Phase.NEEDS_HUMAN, Phase.CANCELLED},
    Phase.RUNNING: {
        Phase.VERIFYING,
        Phase.AWAITING_PERMIT,
        Phase.NEEDS_HUMAN,
        Phase.FAILED,
        Phase.CANCELLED,
    },
    Phase.VERIFYING: {
        Phase.SUCCEEDED,
        Phase.AWAITING_PERMIT,
        Phase.NEEDS_HUMAN,
        Phase.FAILED,
        Phase.CANCELLED,
    },
    Phase.NEEDS_HUMAN: {Phase.PENDING, Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED},
    Phase.SUCCEEDED: set(),
    Phase.FAILED: set(),
    Phase.CANCELLED: set(),
    Phase.SHADOWED: set(),
}
"""Allowed transitions between phases."""


def step(job: Job, seen: JobObservation) -> Move:
    """Return the job with its next status, and the act to do when the status needs no change."""
    after, act = _step(job, seen)
    return timed(job, after, seen.now), act


def _step(job: Job, seen: JobObservation) -> Move:
    if job.phase.closed:
        return afterwards(job, seen)
    if (ending := job.close_reason) is not None:
        return undoing(job, seen, ending)
    if job.phase is Phase.PENDING and (with_marks := adopted(job, seen)) is not job:
        return with_marks, JobAct.NONE
    if (stop := _interrupted(job, seen) or answered(job, seen)) is not None:
        return stop
    match job.phase:
        case Phase.PENDING:
            return _pending(job, seen)
        case Phase.AWAITING_APPROVAL:
            return awaiting_approval(job, seen)
        case Phase.AWAITING_PERMIT:
            return awaiting_permit(job, seen)
        case Phase.RUNNING:
            return renewed(job, seen) or running(job, seen)
        case Phase.VERIFYING:
            return renewed(job, seen) or verifying(job, seen)
        case Phase.NEEDS_HUMAN:
            return needs_human(job, seen)
        case Phase.SUCCEEDED | Phase.FAILED | Phase.CANCELLED | Phase.SHADOWED:
            raise AssertionError("closed phases were handled above")


LACKS_CORDON = (
    "the node is schedulable, and etcd was restored from a backup: whether a person uncordoned the"
    " node is not known until `kubenode freeze lift`"
)
"""Message of the hold of a job when its cordon is missing after a restore of etcd."""


def _interrupted(job: Job, seen: JobObservation) -> Move | None:
    """Close an open job for a reason outside its own plan; return None if there is no
    such reason.
    """
    now = seen.now
    if seen.node is None and not job.gone_by_us:
        return close(job, now, CloseReason.NODE_GONE, "the node is gone, or another one by now")
    if job.in_flight:
        return None
    if job.deleting:
        return close(job, now, CloseReason.JOB_DELETED, "the job was deleted")
    if job.spec.cancel:
        return close(job, now, CloseReason.PERSON_CANCELLED, "a person cancelled the job")
    if seen.node is not None and _uncordoned(job, seen.node):
        # After a restore the caches may show the backup's Node before the backup's job.
        if seen.restored:
            return hold(job, now, HoldReason.ACT_REFUSED, LACKS_CORDON)
        return close(job, now, CloseReason.PERSON_UNCORDONED, "a person uncordoned the node")
    if (stronger := superseded(job, seen)) is not None:
        return stronger
    return planned_events.cancelled(job, seen)


def _uncordoned(job: Job, node: NodeSeen) -> bool:
    """Report whether somebody removed the cordon that we had set.

    Before the cordon step is recorded as done, a schedulable node without our mark is one that we
    have not cordoned yet.
    """
    if node.unschedulable:
        return False
    if job.spec.supersedes and node.cordoned_by == job.spec.supersedes:
        return True
    if not job.status.owned.cordon:
        return False
    seen_done = any(r.name == "cordon" and r.state is StepState.DONE for r in job.status.steps)
    return seen_done or node.cordoned_by == job.mark


def _pending(job: Job, seen: JobObservation) -> Move:
    if (move := taking_over(job, seen)) is not None:
        return move
    if job.status.timeline.job_created is not None:
        return _led_on(job)
    known = {"rung": job.spec.start_rung, "also_matched": list(job.also_matched)}
    if (held := waiting(job.having(**known), seen)) is not None:
        return held
    fault_seen = job.status.timeline.fault_seen or job.spec.trigger.first_true
    timeline = job.status.timeline.model_copy(
        update={"fault_seen": fault_seen, "job_created": job.created}
    )
    start = {**known, "timeline": timeline}
    first = job.spec.ladder[job.spec.start_rung].disruption_class
    match job.spec.mode:
        case Mode.DRY_RUN | Mode.OFF:
            return _shadow(job, seen, first)
        case Mode.APPROVE:
            return enter(job, Phase.AWAITING_APPROVAL, "waits for a person's word", **start)
        case Mode.ENFORCE if job.spec.approval.required:
            return enter(job, Phase.AWAITING_APPROVAL, "waits for a person's word", **start)
        case Mode.ENFORCE if first is Disruption.NONE:
            return enter(job, Phase.RUNNING, "", **start)
        case Mode.ENFORCE:
            return enter(job, Phase.AWAITING_PERMIT, "", **start)


def _led_on(job: Job) -> Move:
    """Continue on the rung that a person chose; their decision is also the approval."""
    if job.disruption is Disruption.NONE:
        return enter(job, Phase.RUNNING, job.status.message)
    return enter(job, Phase.AWAITING_PERMIT, job.status.message)


def _shadow(job: Job, seen: JobObservation, first: Disruption) -> Move:
    """End a dry run with the verdict that Kube Defender would have given."""
    timeline = job.status.timeline.model_copy(
        update={
            "fault_seen": job.spec.trigger.first_true,
            "job_created": job.created,
            "closed": seen.now,
        }
    )
    if first is Disruption.NONE:
        return enter(job, Phase.SHADOWED, "would have run without a permit", timeline=timeline)
    heard = seen.heard
    if heard is None or heard.act is not JobAct.ASK_PERMIT:
        return job, JobAct.ASK_PERMIT
    if heard.verdict is None:
        said = f"Kube Defender could not be asked: {heard.error}"
    elif heard.verdict.allowed:
        said = "Kube Defender would have granted it"
    else:
        said = f"Kube Defender would have refused ({heard.verdict.reason}): {heard.verdict.message}"
    return enter(job, Phase.SHADOWED, said, timeline=timeline)
