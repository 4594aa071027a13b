"""Requests to a provider that outlive the job's status, in an annotation of the job. Pure.

A reset or a replacement is asked for once. That it was is written in the status; should somebody
remove the status, the job begins anew, and finds the request of its earlier life here.
"""

from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from remedy.job.model import Job, Requested
from remedy.job.power_record import ASKED

ONCE = frozenset({"reset", "replace"})
"""What has a second effect when it is asked for twice."""


def to_note(job: Job) -> Requested | None:
    """The request under way, if it has to be noted and is not; None otherwise."""
    record = job.record
    if record is None or record.asked_at is None or record.output.get(ASKED) not in ONCE:
        return None
    request = Requested(
        record.output[ASKED], record.request_id, record.boot_id or "-", record.asked_at
    )
    return None if job.requested == request else request


def asked_earlier(job: Job, record: StepStatus, word: str) -> Requested | None:
    """The same request of the same step, made before this step began: by a status that is gone."""
    noted, begun = job.requested, record.started_at
    if noted is None or noted.word != word or begun is None or noted.asked_at >= begun:
        return None
    return noted if noted.request_id.startswith(f"r{record.rung}s{record.index}a") else None
