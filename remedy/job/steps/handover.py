"""Steps `webhook` and `createObject`: another system is asked to act on the node. Pure.

Both need what our own acts need: the permit of the rung, no guard that is true, evidence that is
true. An object is recorded before it is created, observed before the step relies on it, and deleted
when its step fails or the job ends.
"""

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import HoldReason, Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.runtime.patience import patience
from remedy.handover.observation import Handed, HandoverObservation
from remedy.job.created_objects import MADE, PATH, TAKEN_BACK, YES, HandoverAct
from remedy.job.model import Job, JobAct, JobActResult, JobObservation, NodeObservation
from remedy.job.moves import Move, due, hold, is_waiting_for, wait
from remedy.job.records import disrupt, done, failed, late, put
from remedy.job.steps.handler import StepHandler
from remedy.power.observation import RequestOutcome


def webhook(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Call the receiver until it takes the request, refuses it, or the step's time is over."""
    assert step.webhook is not None
    result = observation.act_result
    if result is not None and result.act is HandoverAct.START_HANDOVER:
        if result.outcome is RequestOutcome.TAKEN:
            return done(job, observation, record, f"{step.webhook.receiver} took it")
        if result.outcome is RequestOutcome.REFUSED:
            return failed(job, observation, step, record, result.error)
        if not late(record, observation):
            return _again(job, observation, record, result)
    if late(record, observation):
        why = result.error if result is not None and result.error else _hold_message(job)
        within = format_duration(step.body.timeout)
        about = f"{step.webhook.receiver} did not take it within {within}"
        return failed(job, observation, step, record, f"{about}: {why}" if why else about)
    if is_waiting_for(job, HoldReason.RECEIVER_UNREACHABLE) and not due(job, observation.now):
        return wait(job)
    return disrupt(job, observation, HandoverAct.START_HANDOVER)


def create_object(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Create the object and wait until it says that the work is done."""
    assert step.create_object is not None
    result, read = observation.act_result, observation.step
    there = read if isinstance(read, HandoverObservation) else None
    if result is not None and result.act is HandoverAct.TAKE_BACK:
        return _taken_back(job, observation, step, record, result)
    if result is not None and result.act is HandoverAct.START_HANDOVER:
        if result.outcome is RequestOutcome.REFUSED:
            return _fail(job, observation, step, record, result.error)
        if result.outcome is RequestOutcome.TAKEN:
            return _noted(job, record, **{MADE: YES}).having(hold=None), JobAct.NONE
        return _again(job, observation, record, result)
    if there is not None and (end := _ended(job, observation, step, record, there)) is not None:
        return end
    if late(record, observation):
        within = format_duration(step.body.timeout)
        return _fail(job, observation, step, record, f"its object was not done within {within}")
    if there is None or there.state is not Handed.ABSENT:
        return wait(job)
    if is_waiting_for(job, HoldReason.RECEIVER_UNREACHABLE) and not due(job, observation.now):
        return wait(job)
    if not job.finalizer:
        return job, JobAct.ADD_FINALIZER
    if PATH not in record.output:
        extra = {TAKEN_BACK: "kept"} if there.keep else {}
        return _noted(job, record, **{PATH: there.path}, **extra), JobAct.NONE
    return disrupt(job, observation, HandoverAct.START_HANDOVER)


def _ended(
    job: Job,
    observation: JobObservation,
    step: Step,
    record: StepStatus,
    there: HandoverObservation,
) -> Move | None:
    """Return what the object's state means for the step; None: nothing yet."""
    match there.state:
        case Handed.DONE:
            return done(job, observation, record, "its object says that it is done")
        case Handed.ABSENT if MADE in record.output:
            return done(job, observation, record, "its object is gone: the work is done")
        case Handed.GOING if MADE not in record.output:
            return _noted(job, record, **{PATH: there.path, MADE: YES}), JobAct.NONE
        case Handed.FAILED:
            about = f": {there.why}" if there.why else ""
            return _fail(job, observation, step, record, f"its object says that it failed{about}")
        case Handed.FOREIGN:
            why = f"{there.path} is there already, and not ours: another works on this node"
            return _fail(job, observation, step, record, why)
        case Handed.UNKNOWN if there.final:
            return _fail(job, observation, step, record, there.why)
        case _:
            return None


def _fail(job: Job, observation: JobObservation, step: Step, record: StepStatus, why: str) -> Move:
    """Fail the step; first delete the object, since two systems must not repair one
    node at once.
    """
    if PATH in record.output and TAKEN_BACK not in record.output:
        if not record.message:
            return put(job, record.model_copy(update={"message": why[:1024]})), JobAct.NONE
        must_wait = is_waiting_for(job, HoldReason.RECEIVER_UNREACHABLE) and not due(
            job, observation.now
        )
        return wait(job) if must_wait else (job, HandoverAct.TAKE_BACK)
    return failed(job, observation, step, record, why)


def _taken_back(
    job: Job, observation: JobObservation, step: Step, record: StepStatus, result: JobActResult
) -> Move:
    if result.error:
        return _again(job, observation, record, result)
    back = record.model_copy(update={"output": {**record.output, TAKEN_BACK: YES}})
    return failed(job, observation, step, back, record.message)


def _again(job: Job, observation: JobObservation, record: StepStatus, result: JobActResult) -> Move:
    """Hold until the receiver or the API server is asked again."""
    until = observation.now + patience(observation.now - (record.started_at or observation.now))
    return hold(job, observation.now, HoldReason.RECEIVER_UNREACHABLE, result.error, until=until)


def _hold_message(job: Job) -> str:
    current_hold = job.status.hold
    return current_hold.message if current_hold is not None else ""


def _noted(job: Job, record: StepStatus, **notes: str) -> Job:
    return put(job, record.model_copy(update={"output": {**record.output, **notes}}))


HANDLERS = {
    "webhook": StepHandler(webhook, HandoverAct),
    "createObject": StepHandler(create_object, HandoverAct, polled=True),
}
