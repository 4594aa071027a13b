"""Step `wait`: waits for a duration. Pure."""

from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from remedy.job.model import Job, JobObservation, NodeObservation
from remedy.job.moves import Move
from remedy.job.moves import wait as waits
from remedy.job.records import done
from remedy.job.silence import has_passed
from remedy.job.steps.handler import StepHandler


def wait(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Wait for the step's duration."""
    assert step.wait is not None
    began = record.started_at or observation.now
    if has_passed(observation, began, began + step.wait.for_):
        return done(job, observation, record, "")
    return waits(job)


HANDLERS = {"wait": StepHandler(wait)}
