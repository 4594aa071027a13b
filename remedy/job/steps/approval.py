"""Step `waitForApproval`: the rung goes on only after a person approves this step. Pure.

A decision from before the step began was about another situation and does not count;
remedy.job.decisions answers decisions that do not fit.
"""

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from remedy.job.decisions import mark_handled, word
from remedy.job.model import CloseReason, Job, JobAct, JobObservation, NodeObservation
from remedy.job.moves import Move, close, wait
from remedy.job.records import done, failed, late
from remedy.job.steps.handler import StepHandler


def wait_for_approval(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    """Wait until a person approves or denies, or the step's time is over."""
    decision = word(job)
    if decision is not None:
        began = record.started_at or observation.now
        if decision.at is not None and decision.at < began:
            early = f"{decision.decision} of {decision.by} was given before this step began"
            return mark_handled(job).having(message=early), JobAct.NONE
        about = f"by {decision.by}" + (f": {decision.note}" if decision.note else "")
        if decision.decision == "Deny":
            return close(mark_handled(job), observation.now, CloseReason.DENIED, f"denied {about}")
        if decision.decision == "Approve":
            return done(mark_handled(job), observation, record, f"approved {about}")
    if late(record, observation):
        within = format_duration(step.body.timeout)
        return failed(job, observation, step, record, f"nobody approved within {within}")
    return wait(job)


HANDLERS = {"waitForApproval": StepHandler(wait_for_approval)}
