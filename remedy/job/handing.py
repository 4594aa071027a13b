"""What a job has handed over to others, as its steps say. Pure."""

from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from remedy.job.model import Job

PATH, MADE, TAKEN_BACK = "object", "made", "takenBack"
"""Keys of a step's output: where its object is, that it was made, that it is gone by our hand."""
YES = "yes"


def handed(job: Job) -> list[str]:
    """Paths of objects that may be there, are ours and are not to stay."""
    return [r.output[PATH] for r in job.status.steps if _left(r)]


def _left(record: StepStatus) -> bool:
    return PATH in record.output and TAKEN_BACK not in record.output


def taken_back(job: Job) -> Job:
    steps = [
        r.model_copy(update={"output": {**r.output, TAKEN_BACK: YES}}) if _left(r) else r
        for r in job.status.steps
    ]
    return job.having(steps=steps)
