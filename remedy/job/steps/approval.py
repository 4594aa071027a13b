"""Step `waitForApproval`: the rung goes on only after a person approves this step. Pure.

A decision from before the step began was about another situation and does not count;
remedy.job.decisions answers decisions that do not fit.
"""

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from remedy.job.decisions import heard, word
from remedy.job.model import CloseReason, Job, JobAct, JobObservation, NodeSeen
from remedy.job.moves import Move, close, wait
from remedy.job.records import done, failed, late


def wait_for_approval(
    job: Job, seen: JobObservation, node: NodeSeen, step: Step, record: StepStatus
) -> Move:
    """Wait until a person approves or denies, or the step's time is over."""
    said = word(job)
    if said is not None:
        began = record.started_at or seen.now
        if said.at is not None and said.at < began:
            early = f"{said.decision} of {said.by} was given before this step began"
            return heard(job).having(message=early), JobAct.NONE
        about = f"by {said.by}" + (f": {said.note}" if said.note else "")
        if said.decision == "Deny":
            return close(heard(job), seen.now, CloseReason.DENIED, f"denied {about}")
        if said.decision == "Approve":
            return done(heard(job), seen, record, f"approved {about}")
    if late(record, seen):
        within = format_duration(step.body.timeout)
        return failed(job, seen, step, record, f"nobody approved within {within}")
    return wait(job)
