"""Phases AwaitingApproval and NeedsHuman: the job waits for a person's approval or decision. Pure.

A step `fence` that failed because the machine was not proven off continues without a person once
there is proof.
"""

from datetime import datetime

from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.remedyoperationjob import ApprovalDecision, StepState
from remedy.job.decisions import approve, denied, mark_handled, next_rung, word
from remedy.job.model import ACTED, CloseReason, Job, JobObservation
from remedy.job.moves import Move, close, enter, may, wait
from remedy.job.permits import released
from remedy.job.records import put
from remedy.job.silence import counts
from remedy.job.steps.provider_request import fence_failed, proven_dark
from remedy.job.verification import healed_meanwhile
from rules.truth import Truth


def awaiting_approval(job: Job, observation: JobObservation) -> Move:
    """Wait until a person approves or denies, the fault is gone or the approval expires."""
    now = observation.now
    if observation.fault.evidence is Truth.FALSE:
        return close(job, now, CloseReason.FAULT_GONE, "the fault has gone by itself")
    if (decision := word(job)) is not None:
        if decision.decision == "Deny":
            return denied(job, now, decision)
        return enter(
            approve(job, now, decision), JobPhase.AWAITING_PERMIT, f"approved by {decision.by}"
        )
    began = min(job.created, now)  # by the API server's clock, which may be ahead of ours
    if counts(observation, began, began + job.spec.approval.expires_after):
        return close(job, now, CloseReason.APPROVAL_EXPIRED, "nobody approved in time")
    return wait(job)


def needs_human(job: Job, observation: JobObservation) -> Move:
    """Wait for a person. The job keeps its cordon and releases its permit; it ends if the fault
    goes.
    """
    if job.status.permit is not None:
        return released(job, observation)
    if (decision := word(job)) is not None:
        return _led(job, observation.now, decision)
    return _fence_again(job, observation) or healed_meanwhile(job, observation)


def _fence_again(job: Job, observation: JobObservation) -> Move | None:
    """Return to the failed step `fence` once the provider proves that the machine is off, the fault
    is known true and no guard prevents it. Earlier steps are not repeated; a new permit is
    requested. None: not yet.
    """
    record, power = job.record, observation.power
    if record is None or not fence_failed(job) or observation.node is None:
        return None
    if (
        power is None
        or not proven_dark(job, power)
        or may(job, observation, evidence=True) is not None
    ):
        return None
    again = put(job, record.model_copy(update={"state": StepState.WAITING}))
    why = f"proven dark by now, the fencing goes on: {power.description}"
    steps = again.status.steps
    return enter(job, JobPhase.PENDING, why, steps=steps, evidence_false_since=None)


def _led(job: Job, now: datetime, decision: ApprovalDecision) -> Move:
    """Apply a person's decision in NeedsHuman: continue on the rung that they choose, or close the
    job.
    """
    who, note = decision.by, f": {decision.note}" if decision.note else ""
    if decision.decision == "Close":
        return close(mark_handled(job), now, CloseReason.PERSON_CLOSED, f"closed by {who}{note}")
    rung = job.status.rung if decision.decision == "Retry" else next_rung(job, decision)
    again = [
        r.model_copy(update={"state": StepState.WAITING}) if r.rung == rung else r
        for r in job.status.steps
    ]
    return enter(
        mark_handled(job),
        JobPhase.PENDING,
        f"rung {job.spec.ladder[rung].name} chosen by {who}{note}",
        rung=rung,
        step=0,
        steps=again,
        conditions=[c for c in job.status.conditions if c.type != ACTED],
        verifying_since=None,
        evidence_false_since=None,
    )
