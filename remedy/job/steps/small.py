"""Small steps with one act each: uncordon, notify, label, annotate, wait. Pure."""

from kubenode.api.v1alpha1 import HoldReason, Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.runtime.patience import patience
from remedy.job.model import Job, JobAct, JobObservation, NodeSeen
from remedy.job.moves import Move, due, held_for, hold
from remedy.job.moves import wait as waits
from remedy.job.records import done, failed, late
from remedy.job.silence import over
from remedy.power.observation import RequestOutcome

MINE = {
    "uncordon": JobAct.UNCORDON,
    "notify": JobAct.NOTIFY,
    "label": JobAct.LABEL,
    "annotate": JobAct.ANNOTATE,
}
"""Act of each step."""


def wait(job: Job, seen: JobObservation, node: NodeSeen, step: Step, record: StepStatus) -> Move:
    """Wait for the step's duration."""
    assert step.wait is not None
    began = record.started_at or seen.now
    if over(seen, began, began + step.wait.for_):
        return done(job, seen, record, "")
    return waits(job)


def small(job: Job, seen: JobObservation, node: NodeSeen, step: Step, record: StepStatus) -> Move:
    """Do the step's act until its effect is observed or its time is over."""
    if _shown(job, seen, node, step):
        owned = job.status.owned
        if step.name == "uncordon":
            owned = owned.model_copy(update={"cordon": False})
        return done(job, seen, record, "", owned=owned)
    if seen.heard is not None and seen.heard.outcome is RequestOutcome.REFUSED:
        return failed(job, seen, step, record, seen.heard.error)
    if late(record, seen):
        error = seen.heard.error if seen.heard is not None else ""
        return failed(job, seen, step, record, error or f"step {step.name} took too long")
    if seen.heard is not None and seen.heard.error:
        until = seen.now + patience(seen.now - (record.started_at or seen.now))
        return hold(job, seen.now, HoldReason.RECEIVER_UNREACHABLE, seen.heard.error, until=until)
    if held_for(job, HoldReason.RECEIVER_UNREACHABLE) and not due(job, seen.now):
        return waits(job)
    return job, MINE[step.name]


def _shown(job: Job, seen: JobObservation, node: NodeSeen, step: Step) -> bool:
    """Report whether the effect of the step is observed."""
    if step.label is not None:
        return node.labels.get(step.label.key) == step.label.value
    if step.annotate is not None:
        return node.annotations.get(step.annotate.key) == step.annotate.value
    if step.uncordon is not None:
        return node.cordoned_by != job.mark
    return seen.heard is not None and seen.heard.act is JobAct.NOTIFY and not seen.heard.error
