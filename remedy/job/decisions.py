"""Handles persons' decisions about a job (`spec.approvals`): each once and in order. Pure.

`status.words_heard` counts the decisions that were acted on or answered. A decision that does not
fit the phase is answered at once and never kept: it was made about another situation and must not
decide a later one.
"""

from collections.abc import Collection
from datetime import datetime

from kubenode.api.decisions import ACCEPTED_DECISIONS
from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.ladder import OnTimeout
from kubenode.api.v1alpha1.remedyoperationjob import ApprovalDecision
from remedy.job.model import Act, CloseReason, Job, JobAct, JobObservation
from remedy.job.moves import close, set_condition

APPROVED = "Approved"
"""Condition type: whether a person has approved what the job may do."""
DECISION_ANSWER = "Heard"
"""Condition type: the answer to the last decision that did not fit."""


def word(job: Job) -> ApprovalDecision | None:
    """Return the next decision that is not handled yet; None if there is none."""
    handled = job.status.words_heard
    return job.spec.approvals[handled] if handled < len(job.spec.approvals) else None


def mark_handled(job: Job) -> Job:
    """Return the job with the next decision counted as handled."""
    return job.having(words_heard=job.status.words_heard + 1)


def approve(job: Job, now: datetime, decision: ApprovalDecision) -> Job:
    """Store an approval, or its withdrawal, for the current rung; the decision counts
    as handled.
    """
    yes = decision.decision == "Approve"
    about = f"by {decision.by}" + (f": {decision.note}" if decision.note else "")
    conditions = set_condition(job, now, APPROVED, decision.decision, about, status=yes)
    return mark_handled(job).having(conditions=conditions)


def approved(job: Job) -> bool:
    """Report whether a person approved the job's rung and nobody withdrew the approval."""
    approval = job.condition(APPROVED)
    return approval is not None and approval.status is ConditionStatus.TRUE


def denied(job: Job, now: datetime, decision: ApprovalDecision) -> tuple[Job, Act]:
    """Close the job because a person denied it."""
    why = f"denied by {decision.by}: {decision.note}".rstrip(": ")
    return close(mark_handled(job), now, CloseReason.DENIED, why)


def answered(job: Job, observation: JobObservation) -> tuple[Job, Act] | None:
    """Handle a decision that no phase and no step handles: one about deletions, or one that does
    not fit now, which gets an answer. None: there is no such decision.
    """
    decision = word(job)
    if decision is None or job.phase is JobPhase.PENDING:
        return None
    if decision.by and decision.decision in _of_deletions(job):
        return approve(job, observation.now, decision), JobAct.NONE
    if (why := _unfit(job, observation, decision)) == "":
        return None
    about = f"{decision.decision} of {decision.by or 'nobody'} changes nothing: {why}"
    conditions = set_condition(
        job, observation.now, DECISION_ANSWER, "ChangesNothing", about, status=False
    )
    return mark_handled(job).having(conditions=conditions), JobAct.NONE


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


def _unfit(job: Job, observation: JobObservation, decision: ApprovalDecision) -> str:
    """Return why the decision does not fit now; "" if it does."""
    if not decision.by:
        return "it does not say who speaks"
    if decision.decision not in _fitting(job):
        return f"the job is {job.phase}"
    if observation.node is None and decision.decision in ("Next", "Retry"):
        return "the node is gone"
    if decision.decision != "Next":
        return ""
    rungs, chosen = len(job.spec.ladder), next_rung(job, decision)
    if chosen < rungs:
        return ""
    if decision.rung is None:
        return "no rung follows; name one with --rung, or close the job"
    return f"there is no rung {chosen}, the last is {rungs - 1}"


def _fitting(job: Job) -> Collection[str]:
    """Return the decisions that the job's phase, or its current step, handles."""
    if job.phase is not JobPhase.RUNNING:
        return ACCEPTED_DECISIONS.get(job.phase, ())
    return ("Approve", "Deny") if _asking(job) else ()


def _asking(job: Job) -> bool:
    """Report whether the current step waits for an approval itself."""
    step = job.step
    return (
        job.running_record is not None and step is not None and step.wait_for_approval is not None
    )


def next_rung(job: Job, decision: ApprovalDecision) -> int:
    """Return the index of the rung that `Next` means; it may be beyond the ladder."""
    return decision.rung if decision.rung is not None else job.status.rung + 1
