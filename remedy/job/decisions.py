"""Handles persons' decisions about a job (`spec.approvals`): each once and in order. Pure.

`status.words_heard` counts the decisions that were acted on or answered. A decision that does not
fit the phase is answered at once and never kept: it was made about another situation and must not
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
"""Condition type: the answer to the last decision that did not fit."""


def word(job: Job) -> ApprovalDecision | None:
    """Return the next decision that is not handled yet; None if there is none."""
    heard = job.status.words_heard
    return job.spec.approvals[heard] if heard < len(job.spec.approvals) else None


def heard(job: Job) -> Job:
    """Return the job with the next decision counted as handled."""
    return job.having(words_heard=job.status.words_heard + 1)


def approve(job: Job, now: datetime, said: ApprovalDecision) -> Job:
    """Store an approval, or its withdrawal, for the current rung; the decision counts
    as handled.
    """
    yes = said.decision == "Approve"
    about = f"by {said.by}" + (f": {said.note}" if said.note else "")
    conditions = set_condition(job, now, APPROVED, said.decision, about, status=yes)
    return heard(job).having(conditions=conditions)


def approved(job: Job) -> bool:
    """Report whether a person approved the job's rung and nobody withdrew the approval."""
    found = job.condition(APPROVED)
    return found is not None and found.status is ConditionStatus.TRUE


def denied(job: Job, now: datetime, said: ApprovalDecision) -> tuple[Job, JobAct]:
    """Close the job because a person denied it."""
    why = f"denied by {said.by}: {said.note}".rstrip(": ")
    return close(heard(job), now, CloseReason.DENIED, why)


def answered(job: Job, seen: JobObservation) -> tuple[Job, JobAct] | None:
    """Handle a decision that no phase and no step handles: one about deletions, or one that does
    not fit now, which gets an answer. None: there is no such decision.
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
    """Return the decisions that fit a drain that deletes pods against their budgets: Approve and
    Deny while it runs, Approve after it yielded.
    """
    migrates = (step.migrate for step in job.rung.steps)
    if _asking(job) or not any(m and m.on_timeout is OnTimeout.DELETE for m in migrates):
        return ()
    return {JobPhase.RUNNING: ("Approve", "Deny"), JobPhase.AWAITING_PERMIT: ("Approve",)}.get(
        job.phase, ()
    )


def _unfit(job: Job, seen: JobObservation, said: ApprovalDecision) -> str:
    """Return why the decision does not fit now; "" if it does."""
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
    """Return the decisions that the job's phase, or its current step, handles."""
    if job.phase is not JobPhase.RUNNING:
        return HEARD.get(job.phase, ())
    return ("Approve", "Deny") if _asking(job) else ()


def _asking(job: Job) -> bool:
    """Report whether the current step waits for an approval itself."""
    step = job.step
    return job.under_way is not None and step is not None and step.wait_for_approval is not None


def next_rung(job: Job, said: ApprovalDecision) -> int:
    """Return the index of the rung that `Next` means; it may be beyond the ladder."""
    return said.rung if said.rung is not None else job.status.rung + 1
