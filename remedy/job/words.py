"""What persons say to a job, each word once and in its order (`spec.approvals`). Pure.

`status.words_heard` counts the words that were acted on or answered. One that makes no sense in the
phase is answered at once and never stored up: what a person said of another situation must not
decide a later one.
"""

from collections.abc import Collection
from datetime import datetime

from kubenode.api.decisions import HEARD
from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.ladder import OnTimeout
from kubenode.api.v1alpha1.remedyoperationjob import ApprovalDecision
from remedy.job.model import CloseReason, Job, JobAct, JobObservation
from remedy.job.moves import close, set_condition

APPROVED = "Approved"
"""Condition type: whether a person has approved what the job may do."""
HEARD_WORD = "Heard"
"""Condition type: what became of the last word that made no sense."""


def word(job: Job) -> ApprovalDecision | None:
    """The next word that nobody has heard yet."""
    heard = job.status.words_heard
    return job.spec.approvals[heard] if heard < len(job.spec.approvals) else None


def heard(job: Job) -> Job:
    """The job that has heard `word`."""
    return job.having(words_heard=job.status.words_heard + 1)


def approve(job: Job, now: datetime, said: ApprovalDecision) -> Job:
    """The job that has heard an approval, or its withdrawal, of what its rung may do."""
    yes = said.decision == "Approve"
    about = f"by {said.by}" + (f": {said.note}" if said.note else "")
    conditions = set_condition(job, now, APPROVED, said.decision, about, status=yes)
    return heard(job).having(conditions=conditions)


def approved(job: Job) -> bool:
    """Whether a person has approved what the job may do, and nobody has taken that back."""
    found = job.condition(APPROVED)
    return found is not None and found.status is ConditionStatus.TRUE


def denied(job: Job, now: datetime, said: ApprovalDecision) -> tuple[Job, JobAct]:
    why = f"denied by {said.by}: {said.note}".rstrip(": ")
    return close(heard(job), now, CloseReason.DENIED, why)


def answered(job: Job, seen: JobObservation) -> tuple[Job, JobAct] | None:
    """Hear a word that no phase and no step hears by itself: an approval of deletions, or one that
    makes no sense now, which is told; None: there is none.
    """
    said = word(job)
    if said is None or job.phase is JobPhase.PENDING:
        return None
    if said.by and said.decision in _of_deletions(job):
        return approve(job, seen.now, said), JobAct.NONE
    if (why := _unfit(job, seen, said)) == "":
        return None
    about = f"{said.decision} of {said.by or 'nobody'} changes nothing: {why}"
    conditions = set_condition(job, seen.now, HEARD_WORD, "ChangesNothing", about, status=False)
    return heard(job).having(conditions=conditions), JobAct.NONE


def _of_deletions(job: Job) -> Collection[str]:
    """Words about a drain that deletes what budgets keep: while it goes on, and once it yielded."""
    migrates = (step.migrate for step in job.rung.steps)
    if _asking(job) or not any(m and m.on_timeout is OnTimeout.DELETE for m in migrates):
        return ()
    return {JobPhase.RUNNING: ("Approve", "Deny"), JobPhase.AWAITING_PERMIT: ("Approve",)}.get(
        job.phase, ()
    )


def _unfit(job: Job, seen: JobObservation, said: ApprovalDecision) -> str:
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
    return ("Approve", "Deny") if _asking(job) else ()


def _asking(job: Job) -> bool:
    """Whether the step under way hears an approval or a denial itself."""
    step = job.step
    return job.under_way is not None and step is not None and step.wait_for_approval is not None


def next_rung(job: Job, said: ApprovalDecision) -> int:
    """The rung that `Next` means; it may be beyond the ladder."""
    return said.rung if said.rung is not None else job.status.rung + 1
