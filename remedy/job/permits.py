"""The permit of a job: requested until Kube Defender grants it, renewed, released. Pure."""

from datetime import datetime, timedelta

from kubenode.api.meta import format_time
from kubenode.api.recurrence import opens_at
from kubenode.api.v1alpha1 import Disruption, HoldReason, JobPhase, Reason, Verdict
from kubenode.runtime.patience import LATE, patience
from remedy.job.decisions import denied, word
from remedy.job.model import CloseReason, Job, JobAct, JobObservation
from remedy.job.moves import (
    Move,
    asks_again,
    close,
    due,
    enter,
    granted,
    healed,
    hold,
    is_waiting_for,
    may,
    reset_false_since,
    wait,
)
from remedy.job.undo import owns
from rules.leaves.describe import windowed
from rules.truth import Truth

RENEW_BEFORE = timedelta(minutes=5)
"""A permit is renewed this long before it expires, or after half of its life if that is later."""


def awaiting_permit(job: Job, observation: JobObservation) -> Move:
    """Ask for a permit until it is granted; end if the fault goes or a person denies the job."""
    now, result = observation.now, observation.act_result
    has_answer = result is not None and result.act is JobAct.ASK_PERMIT
    if has_answer and result is not None and result.verdict is not None and result.verdict.allowed:
        job = granted(
            job, now, result.verdict
        )  # stored even if the job stops below: it must be released
    if observation.fault.evidence is Truth.FALSE and not owns(job):
        return close(job, now, CloseReason.FAULT_GONE, "the fault has gone by itself")
    if (decision := word(job)) is not None:
        return denied(job, now, decision)
    if (gone := healed(job, observation) or reset_false_since(job, observation)) is not None:
        return gone
    if (
        is_waiting_for(job, HoldReason.PDB_BLOCKED)
        and job.status.permit is not None
        and not has_answer
    ):
        return released(job, observation)
    if not has_answer and (closed := window_closed(job, observation)) is not None:
        return closed
    if job.disruption is Disruption.NONE:
        return enter(job, JobPhase.RUNNING)
    if is_waiting_for(job, HoldReason.PDB_BLOCKED) and not due(job, now) and not has_answer:
        return wait(job)
    if (stop := may(job, observation, evidence=True)) is not None:
        return stop
    if result is not None and has_answer:
        return _apply_verdict(job, observation, result.verdict, result.error)
    if _refused_lately(job, now) and not observation.woken:
        return wait(job)
    return job, JobAct.ASK_PERMIT


def window_closed(job: Job, observation: JobObservation) -> Move | None:
    """Wait until the windows of the rule and of the rung are open; None: they are."""
    for window, owner in (
        (job.rung.window, f"rung {job.rung.name}"),
        (job.spec.window, "the rule"),
    ):
        opens = opens_at(window, observation.now) if window is not None else None
        if opens is None or window is None:
            continue
        why = f"the window of {owner} is closed until {format_time(opens)}: {windowed(window)}"
        return hold(job, observation.now, Reason.WINDOW_CLOSED, why, until=opens)
    return None


def _refused_lately(job: Job, now: datetime) -> bool:
    """Report whether the hold comes from Kube Defender and its time to ask again has not come."""
    ours = (
        HoldReason.FAULT_UNKNOWN,
        HoldReason.ENGINES_DISAGREE,
        HoldReason.GUARD_TRUE,
        "StaleData",
    )
    return not asks_again(job, now) and not is_waiting_for(job, *ours)


def _apply_verdict(
    job: Job, observation: JobObservation, verdict: Verdict | None, error: str
) -> Move:
    """Enter Running if the permit is granted; else hold with the reason of the refusal."""
    now = observation.now
    until = ask_again_at(job, now, verdict)
    if verdict is None:
        return hold(job, now, HoldReason.DEFENDER_UNREACHABLE, error, until=until, quiet=LATE)
    if verdict.allowed:
        return enter(job, JobPhase.RUNNING)
    return hold(
        job,
        now,
        verdict.reason,
        verdict.message or f"Kube Defender refuses: {verdict.reason}",
        scope=verdict.scope,
        until=until,
        quiet=LATE,
    )


def ask_again_at(job: Job, now: datetime, verdict: Verdict | None) -> datetime:
    """Return when to ask again: as Kube Defender says, or later for a job that waits long, since
    many such jobs would ask and write all the time.
    """
    later = now + patience((now - job.created) / 2)
    if verdict is None or verdict.look_again_at is None:
        return later
    return max(verdict.look_again_at, later) if now - job.created > LATE else verdict.look_again_at


def released(job: Job, observation: JobObservation) -> Move:
    """Release the permit. If Kube Defender cannot be reached, it frees the permit by itself, since
    it checks whether the job still needs it.
    """
    result = observation.act_result
    if result is not None and result.act is JobAct.RELEASE_PERMIT:
        return job.having(permit=None), JobAct.NONE
    return job, JobAct.RELEASE_PERMIT


def renewed(job: Job, observation: JobObservation) -> Move | None:
    """Renew the permit while the job runs or verifies. A lost permit is handled before the next
    act.
    """
    permit = job.status.permit
    if permit is None or permit.expires_at is None:
        return None
    result = observation.act_result
    if result is not None and result.act is JobAct.RENEW_PERMIT:
        if (
            result.verdict is not None
            and result.verdict.allowed
            and result.verdict.expires_at != permit.expires_at
        ):
            return granted(job, observation.now, result.verdict), JobAct.NONE
        return None
    if result is not None and result.outcome is not None:
        return None  # the outcome of an act is written first
    if observation.now < renew_at(job) or is_waiting_for(job, HoldReason.PERMIT_LOST):
        return None
    return job, JobAct.RENEW_PERMIT


def renew_at(job: Job) -> datetime:
    """Return when to renew: after half of the permit's life, or RENEW_BEFORE its end if that is
    later.
    """
    permit = job.status.permit
    assert permit is not None and permit.expires_at is not None
    life = permit.expires_at - (permit.granted_at or job.created)
    return permit.expires_at - min(RENEW_BEFORE, life / 2)
