"""How a step goes on and ends: its record in the status, what follows from a failure. Pure.

A step's record is its intent. It is written before anything is done, and says what was asked, when,
of which boot of the host, and until when. A step is done when its effect was seen, never because it
was asked for.
"""

from datetime import datetime

from kubenode.api.v1alpha1 import HoldReason, Step
from kubenode.api.v1alpha1.ladder import OnFailure
from kubenode.api.v1alpha1.remedyoperationjob import StepBy, StepState, StepStatus, Timeline
from remedy.job.model import Job, JobAct, JobObservation, NodeSeen, binding
from remedy.job.moves import MESSAGE, Move, climb, give_up, held_for, may, stands, wait
from remedy.job.silence import of_step

FIRST_CHECK = 16
"""Index of the record of a rung's first check: a rung has no more steps than that."""


def put(job: Job, record: StepStatus) -> Job:
    others = [r for r in job.status.steps if (r.rung, r.index) != (record.rung, record.index)]
    return job.having(steps=sorted([*others, record], key=lambda r: (r.rung, r.index)))


def ask(
    job: Job, now: datetime, node: NodeSeen, record: StepStatus, by: StepBy, expires_at: datetime
) -> Job:
    """The job with a request in its step's record. Writing it asks an agent, which acts by itself;
    a provider is asked after that write. Each request of a step has an ID of its own.

    expires_at  from then on the executor refuses it, and the asker gives it up
    """
    attempts = record.attempts + bool(record.request_id)
    asked = record.model_copy(
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
    return put(job, asked).having(owned=owned, hold=None)


def ended(record: StepStatus, at: datetime, state: StepState, message: str) -> StepStatus:
    return record.model_copy(
        update={"state": state, "finished_at": at, "message": message[:MESSAGE]}
    )


def done(
    job: Job,
    seen: JobObservation,
    record: StepStatus,
    message: str,
    *,
    at: datetime | None = None,
    timeline: Timeline | None = None,
    **changes: object,
) -> Move:
    record = ended(record, at or seen.now, StepState.DONE, message)
    timeline = timeline or job.status.timeline
    after = put(job, record).having(
        step=job.status.step + 1, hold=None, timeline=timeline, **changes
    )
    return after, JobAct.NONE


def failed(job: Job, seen: JobObservation, step: Step, record: StepStatus, why: str) -> Move:
    after = put(job, ended(record, seen.now, StepState.FAILED, why))
    match step.body.on_failure:
        case OnFailure.CONTINUE:
            return after.having(step=job.status.step + 1, hold=None), JobAct.NONE
        case OnFailure.STOP:
            return give_up(after, seen.now, why)
        case OnFailure.ESCALATE if seen.node is None:
            return give_up(after, seen.now, f"{why}; the node is gone, so no rung can follow")
        case OnFailure.ESCALATE:
            return climb(after, seen.now, why)


def late(record: StepStatus, seen: JobObservation) -> bool:
    """Whether its time is over, and not merely because nobody could be heard in it."""
    return record.expires_at is not None and of_step(seen, record, record.expires_at)


def unheard(
    job: Job, seen: JobObservation, step: Step, record: StepStatus, deadline: datetime, why: str
) -> Move:
    """The end of a step of which nothing is heard: once its deadline has passed and the silence
    counts. Until then it waits, and asks nothing of anybody.
    """
    return failed(job, seen, step, record, why) if of_step(seen, record, deadline) else wait(job)


def begun(job: Job) -> bool:
    """Whether this rung did, or asked for, something that cannot be undone."""
    return any(
        r.rung == job.status.rung
        and r.state is not StepState.WAITING
        and (r.asked_at is not None or r.state is StepState.DONE)
        and binding(job, r)
        for r in job.status.steps
    )


def disrupt(job: Job, seen: JobObservation, act: JobAct) -> Move:
    """The last look before an act that disrupts."""
    if stop := may(job, seen, evidence=not begun(job)) or stands(job, seen):
        return stop
    if job.status.hold is not None and not held_for(job, HoldReason.PDB_BLOCKED):
        return job.having(hold=None), JobAct.NONE
    return job, act
