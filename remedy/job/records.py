"""Records of steps in the status: how a step goes on and ends, and what follows from a failure.
Pure.

A step's record is its intent. It is written before anything is done, and holds what was requested,
when, for which boot of the host, and until when. A step is done when its effect was observed, never
because it was requested.
"""

from datetime import datetime

from kubenode.api.v1alpha1 import HoldReason, Step
from kubenode.api.v1alpha1.ladder import OnFailure
from kubenode.api.v1alpha1.remedyoperationjob import StepBy, StepState, StepStatus, Timeline
from remedy.job.model import Act, Job, JobAct, JobObservation, NodeObservation, binding
from remedy.job.moves import MESSAGE, Move, climb, give_up, is_waiting_for, may, stands, wait
from remedy.job.silence import of_step

FIRST_CHECK = 16
"""Index of the record of a rung's first check: a rung has at most this many steps."""


def put(job: Job, record: StepStatus) -> Job:
    """Return the job with this record in place of the older one of the same step."""
    others = [r for r in job.status.steps if (r.rung, r.index) != (record.rung, record.index)]
    return job.having(steps=sorted([*others, record], key=lambda r: (r.rung, r.index)))


def ask(
    job: Job,
    now: datetime,
    node: NodeObservation,
    record: StepStatus,
    by: StepBy,
    expires_at: datetime,
) -> Job:
    """Return the job with a request in its step's record. Writing it is the request to an agent,
    which acts by itself; a provider is asked after that write. Each request of a step has its own
    ID.

    expires_at: from then on the executor refuses the request, and the job no longer waits for it
    """
    attempts = record.attempts + bool(record.request_id)
    request = record.model_copy(
        update={
            "by": by,
            "attempts": attempts,
            "request_id": f"r{record.rung}s{record.index}a{attempts}",
            "asked_at": now,
            "boot_id": node.boot_id,
            "expires_at": expires_at,
        }
    )
    owned = job.status.owned.model_copy(update={"boot_id": node.boot_id})
    return put(job, request).having(owned=owned, hold=None)


def ended(record: StepStatus, at: datetime, state: StepState, message: str) -> StepStatus:
    """Return the record in a final state."""
    return record.model_copy(
        update={"state": state, "finished_at": at, "message": message[:MESSAGE]}
    )


def done(
    job: Job,
    observation: JobObservation,
    record: StepStatus,
    message: str,
    *,
    at: datetime | None = None,
    timeline: Timeline | None = None,
    **changes: object,
) -> Move:
    """Record the step as done and go on with the next one."""
    record = ended(record, at or observation.now, StepState.DONE, message)
    timeline = timeline or job.status.timeline
    after = put(job, record).having(
        step=job.status.step + 1, hold=None, timeline=timeline, **changes
    )
    return after, JobAct.NONE


def failed(job: Job, observation: JobObservation, step: Step, record: StepStatus, why: str) -> Move:
    """Record the step as failed and go on as its `onFailure` says."""
    after = put(job, ended(record, observation.now, StepState.FAILED, why))
    match step.body.on_failure:
        case OnFailure.CONTINUE:
            return after.having(step=job.status.step + 1, hold=None), JobAct.NONE
        case OnFailure.STOP:
            return give_up(after, observation.now, why)
        case OnFailure.ESCALATE if observation.node is None:
            return give_up(
                after, observation.now, f"{why}; the node is gone, so no rung can follow"
            )
        case OnFailure.ESCALATE:
            return climb(after, observation.now, why)


def late(record: StepStatus, observation: JobObservation) -> bool:
    """Report whether the step's time is over, not counting outages of the API server."""
    return record.expires_at is not None and of_step(observation, record, record.expires_at)


def unheard(
    job: Job,
    observation: JobObservation,
    step: Step,
    record: StepStatus,
    deadline: datetime,
    why: str,
) -> Move:
    """Fail a step without an answer once its deadline has passed and the missing answer counts;
    until then wait.
    """
    return (
        failed(job, observation, step, record, why)
        if of_step(observation, record, deadline)
        else wait(job)
    )


def begun(job: Job) -> bool:
    """Report whether this rung did, or requested, something that cannot be undone."""
    return any(
        r.rung == job.status.rung
        and r.state is not StepState.WAITING
        and (r.asked_at is not None or r.state is StepState.DONE)
        and binding(job, r)
        for r in job.status.steps
    )


def disrupt(job: Job, observation: JobObservation, act: Act) -> Move:
    """Check once more right before an act that disrupts."""
    if stop := may(job, observation, evidence=not begun(job)) or stands(job, observation):
        return stop
    if job.status.hold is not None and not is_waiting_for(job, HoldReason.PDB_BLOCKED):
        return job.having(hold=None), JobAct.NONE
    return job, act
