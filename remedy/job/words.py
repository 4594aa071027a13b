"""What persons say to a job, each word once and in its order (`spec.approvals`). Pure.

`status.words_heard` counts the words that were acted on or answered. One that makes no sense in the
phase is answered at once and never stored up: what a person said of another situation must not
decide a later one.
"""

from collections.abc import Collection
from datetime import datetime

from kubenode.api.decisions import HEARD
from kubenode.api.v1alpha1 import JobPhase, Step
from kubenode.api.v1alpha1.ladder import OnTimeout
from kubenode.api.v1alpha1.remedyoperationjob import ApprovalDecision, StepState
from remedy.job.model import Act, CloseReason, Job, Seen
from remedy.job.moves import close, set_condition

HEARD_WORD = "Heard"
"""Condition type: what became of the last word that made no sense."""


def word(job: Job) -> ApprovalDecision | None:
    """The next word that nobody has heard yet."""
    heard = job.status.words_heard
    return job.spec.approvals[heard] if heard < len(job.spec.approvals) else None


def heard(job: Job) -> Job:
    """The job that has heard `word`."""
    return job.having(words_heard=job.status.words_heard + 1)


def approved(job: Job, since: datetime | None = None) -> bool:
    """Whether the last Approve or Deny that was heard is an Approve, given at or after `since`."""
    told = job.spec.approvals[: job.status.words_heard]
    told = [said for said in told if said.decision in ("Approve", "Deny")]
    if not told or told[-1].decision != "Approve":
        return False
    return since is None or (told[-1].at is not None and told[-1].at >= since)


def denied(job: Job, now: datetime, said: ApprovalDecision) -> tuple[Job, Act]:
    why = f"denied by {said.by}: {said.note}".rstrip(": ")
    return close(heard(job), now, CloseReason.DENIED, why)


def answered(job: Job, seen: Seen) -> tuple[Job, Act] | None:
    """Hear a word that makes no sense now, and say why; None: there is none."""
    said = word(job)
    if said is None or job.phase is JobPhase.PENDING or (why := _unfit(job, seen, said)) == "":
        return None
    about = f"{said.decision} of {said.by or 'nobody'} changes nothing: {why}"
    conditions = set_condition(job, seen.now, HEARD_WORD, "ChangesNothing", about, status=False)
    return heard(job).having(conditions=conditions), Act.NONE


def _unfit(job: Job, seen: Seen, said: ApprovalDecision) -> str:
    """Why the word makes no sense now, "" if it does."""
    if not said.by:
        return "it does not say who speaks"
    if said.decision not in _fitting(job):
        return f"the job is {job.phase}"
    if seen.node is None and said.decision in ("Next", "Retry"):
        return "the node is gone"
    if said.decision != "Next":
        return ""
    rungs, chosen = len(job.spec.ladder), next_rung(job, said)
    if chosen < rungs:
        return ""
    if said.rung is None:
        return "no rung follows; name one with --rung, or close the job"
    return f"there is no rung {chosen}, the last is {rungs - 1}"


def _fitting(job: Job) -> Collection[str]:
    if job.phase is not JobPhase.RUNNING:
        return HEARD.get(job.phase, ())
    step, record = job.step, job.record
    under_way = record is not None and record.state is StepState.RUNNING
    return ("Approve", "Deny") if under_way and step is not None and _asks(step) else ()


def _asks(step: Step) -> bool:
    """Whether the step under way hears an approval or a denial itself."""
    if step.migrate is not None:
        return step.migrate.on_timeout is OnTimeout.DELETE
    return step.wait_for_approval is not None


def next_rung(job: Job, said: ApprovalDecision) -> int:
    """The rung that `Next` means; it may be beyond the ladder."""
    return said.rung if said.rung is not None else job.status.rung + 1
