"""Checks of a rung that the agent runs on the host to verify the repair: requests and results.
Pure.

Checks come last, once the rest of the proof has held long enough: all are requested at once, and
all must pass. A check that fails or gets no answer proves nothing; all are requested again after a
while. Each request has its own ID, and the record of a check is that of its latest request, at
index FIRST_CHECK and on.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.remedyoperationjob import (
    CHECK,
    AgentRequest,
    RequestState,
    StepBy,
    StepState,
    StepStatus,
)
from remedy.job.model import Job, JobAct, JobObservation, NodeObservation
from remedy.job.moves import Move, wait
from remedy.job.records import FIRST_CHECK, ended, put
from remedy.job.silence import of_step
from remedy.job.steps.agent import ANSWER_GRACE

TRIES = 8
"""Checks are requested at most this often within `verify.timeout`, and at least SHORTEST apart."""
SHORTEST = timedelta(seconds=15)
"""Shortest interval between two requests of checks."""
UNKNOWN = frozenset({124, 127})
"""Exit codes of a check that timed out or could not run: its result is inconclusive."""


def examined(job: Job, observation: JobObservation, since: datetime) -> Move | None:
    """Request and evaluate the checks; None once every check requested at or after `since` has
    passed.
    """
    if not job.rung.verify.checks:
        return None
    for n, check in enumerate(job.rung.verify.checks):
        record = _record(job, n)
        if record is None or record.asked_at is None or record.asked_at < since:
            return _ask(job, observation)
        if record.state is StepState.RUNNING and (
            after := _evaluate_answer(job, observation, check, record)
        ):
            return after, JobAct.NONE
    records = list(_records(job))
    if all(record.state is StepState.DONE for record in records):
        return None
    if any(record.state is StepState.RUNNING for record in records):
        return wait(job)
    again = ask_again_at(job)
    return _ask(job, observation) if again is not None and observation.now >= again else wait(job)


def ask_again_at(job: Job) -> datetime | None:
    """Return when failed checks are requested again; None: none has failed."""
    ends = [r.finished_at for r in _records(job) if r.state is StepState.FAILED and r.finished_at]
    return max(ends) + max(job.rung.verify.timeout / TRIES, SHORTEST) if ends else None


def answers_until(job: Job) -> list[tuple[datetime, datetime]]:
    """Return for each pending request when it was made and when it is given up."""
    going = [r for r in _records(job) if r.state is StepState.RUNNING]
    return [(r.asked_at, r.expires_at + ANSWER_GRACE) for r in going if r.asked_at and r.expires_at]


def called_off(job: Job, now: datetime) -> Job:
    """Cancel pending requests: nothing waits for their answers any more."""
    for record in [r for r in _records(job) if r.state is StepState.RUNNING]:
        job = put(job, ended(record, now, StepState.CANCELLED, "not waited for any more"))
    return job


def failures(job: Job) -> list[str]:
    """Return the messages of the failed checks."""
    return [r.message for r in _records(job) if r.state is StepState.FAILED]


def _record(job: Job, n: int) -> StepStatus | None:
    place = (job.status.rung, FIRST_CHECK + n)
    return next((r for r in job.status.steps if (r.rung, r.index) == place), None)


def _records(job: Job) -> Iterator[StepStatus]:
    return (r for r in job.status.steps if r.rung == job.status.rung and r.index >= FIRST_CHECK)


def _ask(job: Job, observation: JobObservation) -> Move:
    if observation.node is None or not observation.node.boot_id:
        return wait(job)  # an agent refuses a request without a boot ID
    for n, check in enumerate(job.rung.verify.checks):
        job = put(job, _request(job, n, check, observation.node, observation.now))
    return job, JobAct.NONE


def _request(job: Job, n: int, check: Step, node: NodeObservation, now: datetime) -> StepStatus:
    old, rung = _record(job, n), job.status.rung
    attempts = (old.attempts if old is not None else 0) + 1
    return StepStatus(
        rung=rung,
        index=FIRST_CHECK + n,
        name=CHECK,
        by=StepBy.AGENT,
        request_id=f"r{rung}c{n}a{attempts}",
        state=StepState.RUNNING,
        attempts=attempts,
        started_at=now,
        asked_at=now,
        expires_at=now + check.body.timeout,
        boot_id=node.boot_id,
    )


def _evaluate_answer(
    job: Job, observation: JobObservation, check: Step, record: StepStatus
) -> Job | None:
    """Return the job with the outcome of a request; None: it is still pending."""
    given = job.status.agent.requests if job.status.agent is not None else {}
    answer, now = given.get(record.request_id), observation.now
    if answer is None or answer.state is RequestState.RUNNING:
        if not of_step(observation, record, (record.expires_at or now) + ANSWER_GRACE):
            return None
        why = f"agent {job.spec.agent} did not answer in time"
        return put(job, ended(record, now, StepState.FAILED, why))
    name = check.agent.check if check.agent is not None else ""
    if answer.state is RequestState.DONE:
        return put(job, ended(record, now, StepState.DONE, f"check {name} passed"))
    why = f"check {name} {_says(answer)}: {answer.output[:512]}".rstrip(": ")
    return put(job, ended(record, now, StepState.FAILED, why))


def _says(answer: AgentRequest) -> str:
    if answer.state is RequestState.REFUSED or answer.code in UNKNOWN:
        return "says nothing"
    return "failed"
