"""Steps `webhook` and `createObject`: another system is asked to act on the node. Pure.

Both need what our own acts need: the permit of the rung, no guard that is true, evidence that is
true. An object is recorded before it is created, observed before the step relies on it, and deleted
when its step fails or the job ends.
"""

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import HoldReason, Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.runtime.patience import patience
from remedy.handover.observation import Handed, HandedSeen
from remedy.job.created_objects import MADE, PATH, TAKEN_BACK, YES
from remedy.job.model import Job, JobAct, JobActResult, JobObservation, NodeSeen
from remedy.job.moves import Move, due, held_for, hold, wait
from remedy.job.records import disrupt, done, failed, late, put
from remedy.power.observation import RequestOutcome


def webhook(job: Job, seen: JobObservation, node: NodeSeen, step: Step, record: StepStatus) -> Move:
    """Call the receiver until it takes the request, refuses it, or the step's time is over."""
    assert step.webhook is not None
    heard = seen.heard
    if heard is not None and heard.act is JobAct.HAND_OVER:
        if heard.outcome is RequestOutcome.TAKEN:
            return done(job, seen, record, f"{step.webhook.receiver} took it")
        if heard.outcome is RequestOutcome.REFUSED:
            return failed(job, seen, step, record, heard.error)
        if not late(record, seen):
            return _again(job, seen, record, heard)
    if late(record, seen):
        why = heard.error if heard is not None and heard.error else _held_by(job)
        within = format_duration(step.body.timeout)
        about = f"{step.webhook.receiver} did not take it within {within}"
        return failed(job, seen, step, record, f"{about}: {why}" if why else about)
    if held_for(job, HoldReason.RECEIVER_UNREACHABLE) and not due(job, seen.now):
        return wait(job)
    return disrupt(job, seen, JobAct.HAND_OVER)


def create_object(
    job: Job, seen: JobObservation, node: NodeSeen, step: Step, record: StepStatus
) -> Move:
    """Create the object and wait until it says that the work is done."""
    assert step.create_object is not None
    heard, there = seen.heard, seen.handed
    if heard is not None and heard.act is JobAct.TAKE_BACK:
        return _taken_back(job, seen, step, record, heard)
    if heard is not None and heard.act is JobAct.HAND_OVER:
        if heard.outcome is RequestOutcome.REFUSED:
            return _fail(job, seen, step, record, heard.error)
        if heard.outcome is RequestOutcome.TAKEN:
            return _noted(job, record, **{MADE: YES}).having(hold=None), JobAct.NONE
        return _again(job, seen, record, heard)
    if there is not None and (end := _ended(job, seen, step, record, there)) is not None:
        return end
    if late(record, seen):
        within = format_duration(step.body.timeout)
        return _fail(job, seen, step, record, f"its object was not done within {within}")
    if there is None or there.state is not Handed.ABSENT:
        return wait(job)
    if held_for(job, HoldReason.RECEIVER_UNREACHABLE) and not due(job, seen.now):
        return wait(job)
    if not job.finalizer:
        return job, JobAct.ADD_FINALIZER
    if PATH not in record.output:
        kept = {TAKEN_BACK: "kept"} if there.keep else {}
        return _noted(job, record, **{PATH: there.path}, **kept), JobAct.NONE
    return disrupt(job, seen, JobAct.HAND_OVER)


def _ended(
    job: Job, seen: JobObservation, step: Step, record: StepStatus, there: HandedSeen
) -> Move | None:
    """Return what the object's state means for the step; None: nothing yet."""
    match there.state:
        case Handed.DONE:
            return done(job, seen, record, "its object says that it is done")
        case Handed.ABSENT if MADE in record.output:
            return done(job, seen, record, "its object is gone: the work is done")
        case Handed.GOING if MADE not in record.output:
            return _noted(job, record, **{PATH: there.path, MADE: YES}), JobAct.NONE
        case Handed.FAILED:
            about = f": {there.why}" if there.why else ""
            return _fail(job, seen, step, record, f"its object says that it failed{about}")
        case Handed.FOREIGN:
            why = f"{there.path} is there already, and not ours: another works on this node"
            return _fail(job, seen, step, record, why)
        case Handed.UNKNOWN if there.final:
            return _fail(job, seen, step, record, there.why)
        case _:
            return None


def _fail(job: Job, seen: JobObservation, step: Step, record: StepStatus, why: str) -> Move:
    """Fail the step; first delete the object, since two systems must not repair one
    node at once.
    """
    if PATH in record.output and TAKEN_BACK not in record.output:
        if not record.message:
            return put(job, record.model_copy(update={"message": why[:1024]})), JobAct.NONE
        held = held_for(job, HoldReason.RECEIVER_UNREACHABLE) and not due(job, seen.now)
        return wait(job) if held else (job, JobAct.TAKE_BACK)
    return failed(job, seen, step, record, why)


def _taken_back(
    job: Job, seen: JobObservation, step: Step, record: StepStatus, heard: JobActResult
) -> Move:
    if heard.error:
        return _again(job, seen, record, heard)
    back = record.model_copy(update={"output": {**record.output, TAKEN_BACK: YES}})
    return failed(job, seen, step, back, record.message)


def _again(job: Job, seen: JobObservation, record: StepStatus, heard: JobActResult) -> Move:
    """Hold until the receiver or the API server is asked again."""
    until = seen.now + patience(seen.now - (record.started_at or seen.now))
    return hold(job, seen.now, HoldReason.RECEIVER_UNREACHABLE, heard.error, until=until)


def _held_by(job: Job) -> str:
    held = job.status.hold
    return held.message if held is not None else ""


def _noted(job: Job, record: StepStatus, **notes: str) -> Job:
    return put(job, record.model_copy(update={"output": {**record.output, **notes}}))
