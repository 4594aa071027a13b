"""Provider requests that survive the removal of the job's status, in an annotation of the job.
Pure.

A reset or a replacement is requested once, and the status records it. If somebody removes the
status, the job begins again and finds the earlier request in the annotation.
"""

from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from remedy.job.model import Job, Requested
from remedy.job.power_record import REQUEST

ONCE = frozenset({"reset", "replace"})
"""Requests that have a second effect when they are sent twice."""


def to_note(job: Job) -> Requested | None:
    """Return the current request if it must be written to the annotation and is not yet; None
    otherwise.
    """
    record = job.record
    if record is None or record.asked_at is None or record.output.get(REQUEST) not in ONCE:
        return None
    request = Requested(
        record.output[REQUEST], record.request_id, record.boot_id or "-", record.asked_at
    )
    return None if job.requested == request else request


def find_earlier_request(job: Job, record: StepStatus, word: str) -> Requested | None:
    """Return the same request of the same step sent before this step began, so by a status that was
    removed; None if there is none.
    """
    noted, begun = job.requested, record.started_at
    if noted is None or noted.word != word or begun is None or noted.requested_at >= begun:
        return None
    return noted if noted.request_id.startswith(f"r{record.rung}s{record.index}a") else None
