"""Objects that a job created for other systems, as its steps record them. Pure."""

from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from remedy.job.model import Job, StepAct


class HandoverAct(StepAct):
    START_HANDOVER = "HandOver"
    TAKE_BACK = "TakeBack"


PATH, MADE, TAKEN_BACK = "object", "made", "takenBack"
"""Keys of a step's output: path of the object, that it was created, that we deleted it or that it
stays.
"""
YES = "yes"


def handed(job: Job) -> list[str]:
    """Return paths of objects that may exist, are ours and must not stay."""
    return [r.output[PATH] for r in job.status.steps if _is_outstanding(r)]


def _is_outstanding(record: StepStatus) -> bool:
    return PATH in record.output and TAKEN_BACK not in record.output


def taken_back(job: Job) -> Job:
    """Record that all objects of this job are deleted."""
    steps = [
        r.model_copy(update={"output": {**r.output, TAKEN_BACK: YES}}) if _is_outstanding(r) else r
        for r in job.status.steps
    ]
    return job.having(steps=steps)
