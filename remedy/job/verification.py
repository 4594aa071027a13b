"""Verifies whether a repair healed the node: what counts as proof, for how long and until when.
Pure.

The evidence known false by fresh reports, or the expression `cleared` instead, must hold for
`verify.for`; then `checks`, if there are any, must pass. With checks and no `cleared` the evidence
need not become false: checks are for evidence that no report ever takes back.
"""

from datetime import datetime, timedelta

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.ladder import only_notifies
from kubenode.api.v1alpha1.remedyoperationjob import StepState
from kubenode.runtime.term import NEXT_REPORT
from remedy.job.checks import called_off, examined, failures
from remedy.job.model import CloseReason, Job, JobAct, JobObservation
from remedy.job.moves import Move, climb, close, give_up, set_condition, wait
from remedy.job.silence import counts, has_passed
from rules.readiness import about_readiness
from rules.truth import Truth

GONE = "the fault is gone, proven by fresh reports"
PASSED = "all checks of the rung pass"
NOTIFIED = "people were notified; the fault lasts, and the rule does nothing else"


def verifying(job: Job, observation: JobObservation) -> Move:
    """Close the job as verified, or escalate when `verify.timeout` is over."""
    if observation.node is None and job.replaced:
        return _proven(job, observation, "the node was replaced, and the new one is Ready")
    move = _examined(job, observation)
    if move is not None and move[0].close_reason is not None:
        return move
    if counts(observation, acted_on(job), verify_until(job), proof_takes(job)):
        if notified(job):
            return close(job, observation.now, CloseReason.NOTIFIED, NOTIFIED)
        within = format_duration(job.rung.verify.timeout)
        why = "; ".join([f"not proven healthy within {within}", *failures(job)])
        job = called_off(job, observation.now)
        if observation.node is None:
            return give_up(job, observation.now, f"{why}; the node is gone, so no rung can follow")
        return climb(job, observation.now, why)
    return move or _interrupted(job, observation)


def notified(job: Job) -> bool:
    """Report whether the job did all that it is for: the ladder only notifies, no rung follows,
    and people were notified.
    """
    last = job.status.rung + 1 >= len(job.spec.ladder)
    sent = any(r.name == "notify" and r.state is StepState.DONE for r in job.status.steps)
    return last and sent and only_notifies(job.spec.ladder)


def healed_meanwhile(job: Job, observation: JobObservation) -> Move:
    """Verify the job while it waits for a person."""
    return _examined(job, observation) or _interrupted(job, observation)


def stands(job: Job, observation: JobObservation) -> bool:
    """Report whether the proof holds now, without the checks."""
    verify = job.rung.verify
    if verify.checks and verify.cleared is None and job.phase is JobPhase.VERIFYING:
        ready = observation.node is not None and observation.node.ready == "True"
        return ready or job.spec.when is None or not about_readiness(job.spec.when)
    return observation.fault.gone is Truth.TRUE and observation.fresh


def _examined(job: Job, observation: JobObservation) -> Move | None:
    """Return what follows from a proof that holds; None while it does not hold."""
    now, since = observation.now, job.status.evidence_false_since
    if not stands(job, observation):
        return None
    if since is None:
        return job.having(evidence_false_since=now), JobAct.NONE
    if not has_passed(observation, since, since + job.rung.verify.for_):
        return wait(job)
    if (move := examined(job, observation, since)) is not None:
        return move
    return _proven(job, observation, PASSED if job.rung.verify.checks else GONE)


def _interrupted(job: Job, observation: JobObservation) -> Move:
    """Reset the start of the proof, which does not hold now."""
    if job.status.evidence_false_since is None:
        return wait(job)
    return job.having(evidence_false_since=None), JobAct.NONE


def acted_on(job: Job) -> datetime:
    """Return when the rung's steps were done; the creation of the job if they never were."""
    return job.verifying_since or job.created


def proof_takes(job: Job) -> timedelta:
    """Return how long a healthy node may take to be verified once its reports arrive."""
    return NEXT_REPORT + job.rung.verify.for_


def verify_until(job: Job) -> datetime:
    """Return the deadline of the verification."""
    return acted_on(job) + job.rung.verify.timeout


def _proven(job: Job, observation: JobObservation, why: str) -> Move:
    """Close the job as verified: PROVEN if the fault is gone or the node was replaced, else
    CHECKED.
    """
    timeline = job.status.timeline.model_copy(
        update={"verified": observation.now, "pods_unavailable": observation.unavailable}
    )
    gone = observation.fault.gone is Truth.TRUE or job.replaced
    reason = CloseReason.PROVEN if gone else CloseReason.CHECKED
    conditions = set_condition(
        job, observation.now, "Verified", "FaultGone" if gone else "ChecksPassed", why
    )
    return close(job.having(timeline=timeline, conditions=conditions), observation.now, reason, why)
