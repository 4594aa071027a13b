"""Steps that repeat a single act until its effect is observed. Pure."""

from kubenode.api.v1alpha1 import HoldReason, Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.runtime.patience import patience
from remedy.job.model import Act, Job, JobObservation
from remedy.job.moves import Move, due, hold, is_waiting_for, wait
from remedy.job.records import done, failed, late
from remedy.power.observation import RequestOutcome


def act_until(
    job: Job,
    observation: JobObservation,
    step: Step,
    record: StepStatus,
    act: Act,
    *,
    shown: bool,
) -> Move:
    """Do the act until its effect is `shown`, it is refused, or the step's time is over."""
    if shown:
        return done(job, observation, record, "")
    result, now = observation.act_result, observation.now
    if result is not None and result.outcome is RequestOutcome.REFUSED:
        return failed(job, observation, step, record, result.error)
    if late(record, observation):
        error = result.error if result is not None else ""
        return failed(job, observation, step, record, error or f"step {step.name} took too long")
    if result is not None and result.error:
        until = now + patience(now - (record.started_at or now))
        return hold(job, now, HoldReason.RECEIVER_UNREACHABLE, result.error, until=until)
    if is_waiting_for(job, HoldReason.RECEIVER_UNREACHABLE) and not due(job, now):
        return wait(job)
    return job, act
