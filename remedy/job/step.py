"""Decides what one job does next. Pure: the same job and observation give the same answer.

Each call either changes the status or chooses one act, never both (remedy.job.moves). The order of
the guard clauses is the policy: a closed job stays closed; a job that ends first undoes its own
changes; a person's decision and a vanished node come before the job's own plan; nothing interrupts
a job between a request to a host and its outcome.
"""

from kubenode.api.step_text import (
    GRANTED_VERDICT,
    NO_PERMIT_VERDICT,
    describe_steps,
    would_have,
)
from kubenode.api.v1alpha1 import Disruption, HoldReason, JobPhase, Mode
from kubenode.api.v1alpha1.remedyoperationjob import StepState
from remedy.job import planned_events
from remedy.job.conclusion import afterwards, undoing
from remedy.job.decisions import answered
from remedy.job.initialwait import waiting
from remedy.job.model import CloseReason, Job, JobAct, JobObservation, NodeObservation
from remedy.job.moves import Move, close, enter, hold, timed
from remedy.job.people import awaiting_approval, needs_human
from remedy.job.permits import awaiting_permit, renewed
from remedy.job.rung import running
from remedy.job.supersession import adopt_cordon_mark, superseded
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


def step(job: Job, observation: JobObservation) -> Move:
    """Return the job with its next status, and the act to do when the status needs no change."""
    after, act = _step(job, observation)
    return timed(job, after, observation.now), act


def _step(job: Job, observation: JobObservation) -> Move:
    if job.phase.closed:
        return afterwards(job, observation)
    if (ending := job.close_reason) is not None:
        return undoing(job, observation, ending)
    if job.phase is Phase.PENDING and (with_marks := adopted(job, observation)) is not job:
        return with_marks, JobAct.NONE
    if (stop := _interrupted(job, observation) or answered(job, observation)) is not None:
        return stop
    match job.phase:
        case Phase.PENDING:
            return _pending(job, observation)
        case Phase.AWAITING_APPROVAL:
            return awaiting_approval(job, observation)
        case Phase.AWAITING_PERMIT:
            return awaiting_permit(job, observation)
        case Phase.RUNNING:
            return renewed(job, observation) or running(job, observation)
        case Phase.VERIFYING:
            return renewed(job, observation) or verifying(job, observation)
        case Phase.NEEDS_HUMAN:
            return needs_human(job, observation)
        case Phase.SUCCEEDED | Phase.FAILED | Phase.CANCELLED | Phase.SHADOWED:
            raise AssertionError("closed phases were handled above")


LACKS_CORDON = (
    "the node is schedulable, and etcd was restored from a backup: whether a person uncordoned the"
    " node is not known until `kubenode freeze lift`"
)
"""Message of the hold of a job when its cordon is missing after a restore of etcd."""


def _interrupted(job: Job, observation: JobObservation) -> Move | None:
    """Close an open job for a reason outside its own plan; return None if there is no
    such reason.
    """
    now = observation.now
    if observation.node is None and not job.gone_by_us:
        return close(job, now, CloseReason.NODE_GONE, "the node is gone, or another one by now")
    if job.in_flight:
        return None
    if job.deleting:
        return close(job, now, CloseReason.JOB_DELETED, "the job was deleted")
    if job.spec.cancel:
        return close(job, now, CloseReason.PERSON_CANCELLED, "a person cancelled the job")
    if observation.node is not None and _uncordoned(job, observation.node):
        # After a restore the caches may show the backup's Node before the backup's job.
        if observation.restored:
            return hold(job, now, HoldReason.ACT_REFUSED, LACKS_CORDON)
        return close(job, now, CloseReason.PERSON_UNCORDONED, "a person uncordoned the node")
    if (stronger := superseded(job, observation)) is not None:
        return stronger
    return planned_events.cancelled(job, observation)


def _uncordoned(job: Job, node: NodeObservation) -> bool:
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
    cordon_done = any(r.name == "cordon" and r.state is StepState.DONE for r in job.status.steps)
    return cordon_done or node.cordoned_by == job.mark


def _pending(job: Job, observation: JobObservation) -> Move:
    if (move := adopt_cordon_mark(job, observation)) is not None:
        return move
    if job.status.timeline.job_created is not None:
        return _led_on(job)
    known = {"rung": job.spec.start_rung, "also_matched": list(job.also_matched)}
    if (wait_move := waiting(job.having(**known), observation)) is not None:
        return wait_move
    fault_since = job.status.timeline.fault_seen or job.spec.trigger.first_true
    timeline = job.status.timeline.model_copy(
        update={"fault_seen": fault_since, "job_created": job.created}
    )
    start = {**known, "timeline": timeline}
    first = job.spec.ladder[job.spec.start_rung].disruption_class
    match job.spec.mode:
        case Mode.DRY_RUN | Mode.OFF:
            return _shadow(job, observation, first)
        case Mode.APPROVE:
            return enter(job, Phase.AWAITING_APPROVAL, "waits for a person's word", **start)
        case Mode.ENFORCE if job.spec.approval.required:
            return enter(job, Phase.AWAITING_APPROVAL, "waits for a person's word", **start)
        case Mode.ENFORCE if first is Disruption.NONE and (
            job.spec.ladder[job.spec.start_rung].window is None
        ):
            return enter(job, Phase.RUNNING, "", **start)
        case Mode.ENFORCE:
            return enter(job, Phase.AWAITING_PERMIT, "", **start)


def _led_on(job: Job) -> Move:
    """Continue on the rung that a person chose; their decision is also the approval."""
    if job.disruption is Disruption.NONE:
        return enter(job, Phase.RUNNING, job.status.message)
    return enter(job, Phase.AWAITING_PERMIT, job.status.message)


def _shadow(job: Job, observation: JobObservation, first: Disruption) -> Move:
    """End a dry run with the verdict that Kube Defender would have given."""
    timeline = job.status.timeline.model_copy(
        update={
            "fault_seen": job.spec.trigger.first_true,
            "job_created": job.created,
            "closed": observation.now,
        }
    )
    steps = describe_steps(job.spec.ladder[job.spec.start_rung].steps)
    if first is Disruption.NONE:
        message = would_have(steps, NO_PERMIT_VERDICT)
        return enter(job, Phase.SHADOWED, message, timeline=timeline)
    result = observation.act_result
    if result is None or result.act is not JobAct.ASK_PERMIT:
        return job, JobAct.ASK_PERMIT
    if result.verdict is None:
        message = f"Kube Defender could not be asked: {result.error}"
    elif result.verdict.allowed:
        message = GRANTED_VERDICT
    else:
        message = (
            f"Kube Defender would have refused ({result.verdict.reason}): {result.verdict.message}"
        )
    return enter(job, Phase.SHADOWED, would_have(steps, message), timeline=timeline)
