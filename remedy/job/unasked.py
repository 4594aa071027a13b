"""Which requests to providers this process wrote down and has not acted on yet.

What cannot be repeated is asked for right after the write that says so. If that run ends in between
(an API server that did not answer), only the process that wrote it knows that nobody was asked yet;
after its death nobody does, and the request counts as asked.
"""

from kubenode.api.v1alpha1.remedyoperationjob import StepBy
from remedy.job.model import Job, JobAct
from remedy.job.power_record import HEARD

ASKING = frozenset(
    {JobAct.POWER_OFF, JobAct.POWER_ON, JobAct.RESET, JobAct.REPLACE, JobAct.APPROVE_EVENT}
)


class Unasked:
    """At most one request for each job: what it holds is bounded by the jobs there are."""

    def __init__(self) -> None:
        self._requests: dict[str, tuple[str, str]] = {}

    def written(self, before: Job, after: Job) -> None:
        """`after` is about to be written, whether or not the write is heard to succeed."""
        new = _request(after)
        if new is None:
            self.forget(after.name)
        elif new != _request(before) and not _asked_before(after):
            self._requests[after.name] = new

    def holds(self, job: Job) -> bool:
        return job.name in self._requests and self._requests[job.name] == _request(job)

    def acting(self, job: Job, what: JobAct) -> None:
        """`what` is about to be done."""
        if what in ASKING:
            self.forget(job.name)

    def not_asked(self, job: Job) -> None:
        """The last look before the act was against it: nobody was asked after all."""
        request = _request(job)
        if request is not None:
            self._requests[job.name] = request

    def forget(self, name: str) -> None:
        self._requests.pop(name, None)


def _asked_before(job: Job) -> bool:
    """Whether the request was made before the status was removed."""
    return job.record is not None and HEARD in job.record.output


def _request(job: Job) -> tuple[str, str] | None:
    """Uid of the job and ID of the request to a provider that its status shows."""
    record = job.record
    if record is None or record.by is not StepBy.PROVIDER or not job.in_flight:
        return None
    return job.uid, record.request_id
