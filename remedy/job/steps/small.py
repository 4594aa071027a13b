"""Small steps with one act each: uncordon, notify, label, annotate, wait. Pure."""

from kubenode.api.v1alpha1 import HoldReason, Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.runtime.patience import patience
from remedy.job.model import Job, JobAct, JobObservation, NodeObservation
from remedy.job.moves import Move, due, hold, is_waiting_for
from remedy.job.moves import wait as waits
from remedy.job.records import done, failed, late
from remedy.job.silence import has_passed
from remedy.power.observation import RequestOutcome

MINE = {
    "uncordon": JobAct.UNCORDON,
    "notify": JobAct.NOTIFY,
    "label": JobAct.LABEL,
    "annotate": JobAct.ANNOTATE,
}
"""Act of each step."""


def wait(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Wait for the step's duration."""
    assert step.wait is not None
    began = record.started_at or observation.now
    if has_passed(observation, began, began + step.wait.for_):
        return done(job, observation, record, "")
    return waits(job)


def small(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Do the step's act until its effect is observed or its time is over."""
    if _shown(job, observation, node, step):
        owned = job.status.owned
        if step.name == "uncordon":
            owned = owned.model_copy(update={"cordon": False})
        return done(job, observation, record, "", owned=owned)
    if (
        observation.act_result is not None
        and observation.act_result.outcome is RequestOutcome.REFUSED
    ):
        return failed(job, observation, step, record, observation.act_result.error)
    if late(record, observation):
        error = observation.act_result.error if observation.act_result is not None else ""
        return failed(job, observation, step, record, error or f"step {step.name} took too long")
    if observation.act_result is not None and observation.act_result.error:
        until = observation.now + patience(observation.now - (record.started_at or observation.now))
        return hold(
            job,
            observation.now,
            HoldReason.RECEIVER_UNREACHABLE,
            observation.act_result.error,
            until=until,
        )
    if is_waiting_for(job, HoldReason.RECEIVER_UNREACHABLE) and not due(job, observation.now):
        return waits(job)
    return job, MINE[step.name]


def _shown(job: Job, observation: JobObservation, node: NodeObservation, step: Step) -> bool:
    """Report whether the effect of the step is observed."""
    if step.label is not None:
        return node.labels.get(step.label.key) == step.label.value
    if step.annotate is not None:
        return node.annotations.get(step.annotate.key) == step.annotate.value
    if step.uncordon is not None:
        return node.cordoned_by != job.mark
    return (
        observation.act_result is not None
        and observation.act_result.act is JobAct.NOTIFY
        and not observation.act_result.error
    )
