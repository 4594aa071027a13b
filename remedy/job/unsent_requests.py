"""Provider requests persisted but not sent yet.

A request that cannot be repeated is sent right after the write that records it. If the run ends in
between (the API server did not answer), only this process knows that the request was not sent.
After a restart that knowledge is lost, and the request counts as sent.
"""

from kubenode.api.v1alpha1.remedyoperationjob import StepBy
from remedy.job.model import Act, Job, StepAct
from remedy.job.power_record import OUTCOME


class Unasked:
    """Requests persisted but not sent, at most one for each job."""

    def __init__(self) -> None:
        self._requests: dict[str, tuple[str, str]] = {}

    def written(self, before: Job, after: Job) -> None:
        """Record that `after` is about to be written, whether or not the write is confirmed."""
        new = _request(after)
        if new is None:
            self.forget(after.name)
        elif new != _request(before) and not _was_sent_before(after):
            self._requests[after.name] = new

    def holds(self, job: Job) -> bool:
        """Report whether the request in the job's status has not been sent by this process."""
        return job.name in self._requests and self._requests[job.name] == _request(job)

    def acting(self, job: Job, what: Act) -> None:
        """Record that `what` is about to be done: its request counts as sent."""
        if isinstance(what, StepAct) and what.asks_provider:
            self.forget(job.name)

    def mark_unsent(self, job: Job) -> None:
        """Record that the last check before the act prevented it: the request was not sent after
        all.
        """
        request = _request(job)
        if request is not None:
            self._requests[job.name] = request

    def forget(self, name: str) -> None:
        self._requests.pop(name, None)


def _was_sent_before(job: Job) -> bool:
    """Report whether the request was sent before somebody removed the status."""
    return job.record is not None and OUTCOME in job.record.output


def _request(job: Job) -> tuple[str, str] | None:
    """Return the job's uid and the ID of the provider request in its status; None if
    there is none.
    """
    record = job.record
    if record is None or record.by is not StepBy.PROVIDER or not job.in_flight:
        return None
    return job.uid, record.request_id
