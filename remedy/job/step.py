"""Decides what one job does next. Pure: the same job and observation give the same answer.

Each call either changes the status or chooses one act, never both (remedy.job.moves). The order of
the guards is the policy: what is closed stays closed, what ends undoes what is ours first, a
person's word and a vanished node come before the job's own plan, and nothing is cut off between
asking a host for something and hearing what became of it.
"""

from datetime import datetime, timedelta

from kubenode.api.duration import format_duration
from kubenode.api.v1alpha1 import Disruption, HoldReason, JobPhase, Mode, Verdict
from kubenode.api.v1alpha1.remedyoperationjob import ApprovalDecision, StepState
from remedy.job.model import INCIDENT_ENDS, Act, CloseReason, Job, NodeSeen, Seen
from remedy.job.moves import (
    LATE,
    Move,
    asks_again,
    climb,
    close,
    closed,
    due,
    enter,
    give_up,
    granted,
    held_for,
    hold,
    may,
    patience,
    set_condition,
    wait,
)
from remedy.job.running import running
from remedy.job.undo import forget, undo
from remedy.job.words import answered, heard, next_rung, word
from rules.truth import Truth

Phase = JobPhase

EDGES: dict[Phase, set[Phase]] = {
    Phase.PENDING: {
        Phase.AWAITING_APPROVAL,
        Phase.AWAITING_PERMIT,
        Phase.RUNNING,
        Phase.SHADOWED,
        Phase.CANCELLED,
    },
    Phase.AWAITING_APPROVAL: {Phase.AWAITING_PERMIT, Phase.CANCELLED},
    Phase.AWAITING_PERMIT: {Phase.RUNNING, Phase.CANCELLED},
    Phase.RUNNING: {
        Phase.VERIFYING,
        Phase.AWAITING_PERMIT,
        Phase.NEEDS_HUMAN,
        Phase.FAILED,
        Phase.CANCELLED,
    },
    Phase.VERIFYING: {
        Phase.SUCCEEDED,
        Phase.AWAITING_PERMIT,
        Phase.NEEDS_HUMAN,
        Phase.FAILED,
        Phase.CANCELLED,
    },
    Phase.NEEDS_HUMAN: {Phase.PENDING, Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED},
    Phase.SUCCEEDED: set(),
    Phase.FAILED: set(),
    Phase.CANCELLED: set(),
    Phase.SHADOWED: set(),
}

RENEW_BEFORE = timedelta(minutes=5)


def step(job: Job, seen: Seen) -> Move:
    """The job as its status shall be, and the one act to do when it is that already."""
    if job.phase.closed:
        return _afterwards(job, seen)
    if (ending := job.close_reason) is not None:
        return _undo(job, seen, ending)
    if (stop := _interrupted(job, seen) or answered(job, seen)) is not None:
        return stop
    match job.phase:
        case Phase.PENDING:
            return _pending(job, seen)
        case Phase.AWAITING_APPROVAL:
            return _awaiting_approval(job, seen)
        case Phase.AWAITING_PERMIT:
            return _awaiting_permit(job, seen)
        case Phase.RUNNING:
            return _renewed(job, seen) or running(job, seen)
        case Phase.VERIFYING:
            return _renewed(job, seen) or _verifying(job, seen)
        case Phase.NEEDS_HUMAN:
            return _needs_human(job, seen)
        case Phase.SUCCEEDED | Phase.FAILED | Phase.CANCELLED | Phase.SHADOWED:
            raise AssertionError("closed phases were handled above")


def _interrupted(job: Job, seen: Seen) -> Move | None:
    """What ends any open job, whatever it was about to do."""
    now = seen.now
    if seen.node is None and not job.gone_by_us:
        return close(job, now, CloseReason.NODE_GONE, "the node is gone, or another one by now")
    if job.in_flight:
        return None
    if job.deleting:
        return close(job, now, CloseReason.JOB_DELETED, "the job was deleted")
    if job.spec.cancel:
        return close(job, now, CloseReason.PERSON_CANCELLED, "a person cancelled the job")
    if seen.node is not None and _uncordoned(job, seen.node):
        return close(job, now, CloseReason.PERSON_UNCORDONED, "a person uncordoned the node")
    return None


def _uncordoned(job: Job, node: NodeSeen) -> bool:
    """Whether somebody took off the cordon that we had set.

    Before the cordon step was seen done, a schedulable node without our mark is one that we have
    not cordoned yet.
    """
    if not job.status.owned.cordon or node.unschedulable:
        return False
    seen_done = any(r.name == "cordon" and r.state is StepState.DONE for r in job.status.steps)
    return seen_done or node.cordoned_by == job.mark


def _pending(job: Job, seen: Seen) -> Move:
    if job.status.timeline.job_created is not None:
        return _led_on(job)
    timeline = job.status.timeline.model_copy(
        update={"fault_seen": job.spec.trigger.first_true, "job_created": job.created}
    )
    start = {
        "rung": job.spec.start_rung,
        "timeline": timeline,
        "also_matched": list(job.also_matched),
    }
    first = job.spec.ladder[job.spec.start_rung].disruption_class
    match job.spec.mode:
        case Mode.DRY_RUN | Mode.OFF:
            return _shadow(job, seen, first)
        case Mode.APPROVE:
            return enter(job, Phase.AWAITING_APPROVAL, "waits for a person's word", **start)
        case Mode.ENFORCE if job.spec.approval.required:
            return enter(job, Phase.AWAITING_APPROVAL, "waits for a person's word", **start)
        case Mode.ENFORCE if first is Disruption.NONE:
            return enter(job, Phase.RUNNING, "", **start)
        case Mode.ENFORCE:
            return enter(job, Phase.AWAITING_PERMIT, "", **start)


def _led_on(job: Job) -> Move:
    """A person chose a rung: their word is the approval too."""
    if job.disruption is Disruption.NONE:
        return enter(job, Phase.RUNNING, job.status.message)
    return enter(job, Phase.AWAITING_PERMIT, job.status.message)


def _shadow(job: Job, seen: Seen, first: Disruption) -> Move:
    """A dry run ends with what Kube Defender would have said."""
    timeline = job.status.timeline.model_copy(
        update={
            "fault_seen": job.spec.trigger.first_true,
            "job_created": job.created,
            "closed": seen.now,
        }
    )
    if first is Disruption.NONE:
        return enter(job, Phase.SHADOWED, "would have run without a permit", timeline=timeline)
    heard = seen.heard
    if heard is None or heard.act is not Act.ASK_PERMIT:
        return job, Act.ASK_PERMIT
    if heard.verdict is None:
        said = f"Kube Defender could not be asked: {heard.error}"
    elif heard.verdict.allowed:
        said = "Kube Defender would have granted it"
    else:
        said = f"Kube Defender would have refused ({heard.verdict.reason}): {heard.verdict.message}"
    return enter(job, Phase.SHADOWED, said, timeline=timeline)


def _awaiting_approval(job: Job, seen: Seen) -> Move:
    now = seen.now
    if seen.fault.evidence is Truth.FALSE:
        return close(job, now, CloseReason.FAULT_GONE, "the fault has gone by itself")
    if (said := word(job)) is not None:
        if said.decision == "Deny":
            return _denied(job, now, said)
        return enter(heard(job), Phase.AWAITING_PERMIT, f"approved by {said.by}")
    if now >= job.created + job.spec.approval.expires_after:
        return close(job, now, CloseReason.APPROVAL_EXPIRED, "nobody approved in time")
    return wait(job)


def _denied(job: Job, now: datetime, said: ApprovalDecision) -> Move:
    why = f"denied by {said.by}: {said.note}".rstrip(": ")
    return close(heard(job), now, CloseReason.DENIED, why)


def _awaiting_permit(job: Job, seen: Seen) -> Move:
    now, heard = seen.now, seen.heard
    told = heard is not None and heard.act is Act.ASK_PERMIT
    if told and heard is not None and heard.verdict is not None and heard.verdict.allowed:
        job = granted(job, now, heard.verdict)  # written even if we stop below: it must be released
    if seen.fault.evidence is Truth.FALSE:
        return close(job, now, CloseReason.FAULT_GONE, "the fault has gone by itself")
    if (said := word(job)) is not None:
        return _denied(job, now, said)
    if held_for(job, HoldReason.PDB_BLOCKED) and job.status.permit is not None and not told:
        return _released(job, seen)
    if job.disruption is Disruption.NONE:
        return enter(job, Phase.RUNNING)
    if held_for(job, HoldReason.PDB_BLOCKED) and not due(job, now) and not told:
        return wait(job)
    if (stop := may(job, seen, evidence=True)) is not None:
        return stop
    if heard is not None and told:
        return _told(job, seen, heard.verdict, heard.error)
    if _refused_lately(job, now) and not seen.woken:
        return wait(job)
    return job, Act.ASK_PERMIT


def _refused_lately(job: Job, now: datetime) -> bool:
    """Whether the hold is Kube Defender's own and its time to look again has not come."""
    ours = (
        HoldReason.FAULT_UNKNOWN,
        HoldReason.ENGINES_DISAGREE,
        HoldReason.GUARD_TRUE,
        "StaleData",
    )
    return not asks_again(job, now) and not held_for(job, *ours)


def _told(job: Job, seen: Seen, verdict: Verdict | None, error: str) -> Move:
    now = seen.now
    until = ask_again_at(job, now, verdict)
    if verdict is None:
        return hold(job, now, HoldReason.DEFENDER_UNREACHABLE, error, until=until, quiet=LATE)
    if verdict.allowed:
        return enter(job, Phase.RUNNING)
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
    """When Kube Defender says; many that wait long would else ask, and write, all the time."""
    later = now + patience((now - job.created) / 2)
    if verdict is None or verdict.look_again_at is None:
        return later
    return max(verdict.look_again_at, later) if now - job.created > LATE else verdict.look_again_at


def _released(job: Job, seen: Seen) -> Move:
    """Give the permit back. An unreachable Defender frees it by itself: it looks whether we still
    need it.
    """
    heard = seen.heard
    if heard is not None and heard.act is Act.RELEASE_PERMIT:
        return job.having(permit=None), Act.NONE
    return job, Act.RELEASE_PERMIT


def _renewed(job: Job, seen: Seen) -> Move | None:
    """Keep the permit alive while the job works or verifies; a lost one is noticed before the next
    act.
    """
    permit = job.status.permit
    if permit is None or permit.expires_at is None:
        return None
    heard = seen.heard
    if heard is not None and heard.act is Act.RENEW_PERMIT:
        if (
            heard.verdict is not None
            and heard.verdict.allowed
            and heard.verdict.expires_at != permit.expires_at
        ):
            return granted(job, seen.now, heard.verdict), Act.NONE
        return None
    if seen.now < renew_at(job) or held_for(job, HoldReason.PERMIT_LOST):
        return None
    return job, Act.RENEW_PERMIT


def renew_at(job: Job) -> datetime:
    """When half of the permit's life is over, or RENEW_BEFORE its end if that is later."""
    permit = job.status.permit
    assert permit is not None and permit.expires_at is not None
    life = permit.expires_at - (permit.granted_at or job.created)
    return permit.expires_at - min(RENEW_BEFORE, life / 2)


def _verifying(job: Job, seen: Seen) -> Move:
    now, since = seen.now, job.status.evidence_false_since
    if seen.node is None and job.replaced:
        return _proven(job, seen, "the node was replaced, and the new one is Ready")
    gone = seen.fault.gone is Truth.TRUE and seen.fresh
    if gone and since is None:
        return job.having(evidence_false_since=now), Act.NONE
    if gone and since is not None and now >= since + job.rung.verify.for_:
        return _proven(job, seen)
    if now >= verify_until(job):
        why = f"not proven healthy within {format_duration(job.rung.verify.timeout)}"
        if seen.node is None:
            return give_up(job, now, f"{why}; the node is gone, so no rung can follow")
        return climb(job, now, why)
    if not gone and since is not None:
        return job.having(evidence_false_since=None), Act.NONE
    return wait(job)


def verify_until(job: Job) -> datetime:
    acted = job.condition("Acted")
    return (
        acted.last_transition_time if acted is not None else job.created
    ) + job.rung.verify.timeout


def _proven(job: Job, seen: Seen, why: str = "the fault is gone, proven by fresh reports") -> Move:
    timeline = job.status.timeline.model_copy(
        update={"verified": seen.now, "pods_unavailable": seen.unavailable}
    )
    conditions = set_condition(job, seen.now, "Verified", "FaultGone")
    proven = job.having(timeline=timeline, conditions=conditions)
    return close(proven, seen.now, CloseReason.PROVEN, why)


def _needs_human(job: Job, seen: Seen) -> Move:
    """Our cordon stays, the permit does not. If the fault ends after all, so does the job."""
    if job.status.permit is not None:
        return _released(job, seen)
    if (said := word(job)) is not None:
        return _led(job, seen.now, said)
    now, since = seen.now, job.status.evidence_false_since
    gone = seen.fault.gone is Truth.TRUE and seen.fresh
    if gone and since is None:
        return job.having(evidence_false_since=now), Act.NONE
    if gone and since is not None and now >= since + job.rung.verify.for_:
        return _proven(job, seen)
    if not gone and since is not None:
        return job.having(evidence_false_since=None), Act.NONE
    return wait(job)


def _led(job: Job, now: datetime, said: ApprovalDecision) -> Move:
    """A person leads a job out of NeedsHuman: with a rung that they choose, or to its end."""
    who, note = said.by, f": {said.note}" if said.note else ""
    if said.decision == "Close":
        return close(heard(job), now, CloseReason.PERSON_CLOSED, f"closed by {who}{note}")
    rung = job.status.rung if said.decision == "Retry" else next_rung(job, said)
    again = [
        r.model_copy(update={"state": StepState.WAITING}) if r.rung == rung else r
        for r in job.status.steps
    ]
    return enter(
        heard(job),
        Phase.PENDING,
        f"rung {job.spec.ladder[rung].name} chosen by {who}{note}",
        rung=rung,
        step=0,
        steps=again,
        conditions=[c for c in job.status.conditions if c.type != "Acted"],
        evidence_false_since=None,
    )


def _undo(job: Job, seen: Seen, ending: CloseReason) -> Move:
    """Take off what is ours, in the order of its weight for the workloads, then close."""
    if (left := undo(job, seen)) is not None:
        return left
    if job.status.permit is not None:
        job, act = _released(job, seen)
        if act is not Act.NONE:
            return job, act
    return closed(forget(job), seen.now, ending)


def _afterwards(job: Job, seen: Seen) -> Move:
    """A closed job lets go, remembers how long a person's word lasts, and is deleted in time."""
    if job.finalizer:
        return job, Act.REMOVE_FINALIZER
    ended = job.status.timeline.closed
    if job.deleting or ended is None:
        return wait(job)
    if seen.now >= ended + job.spec.ttl_after_finished:
        return job, Act.DELETE
    since = job.status.evidence_false_since
    if not watched(job) or (since is not None and seen.now >= since + INCIDENT_ENDS):
        return wait(job)
    if seen.fault.evidence is Truth.FALSE and since is None:
        return job.having(evidence_false_since=seen.now), Act.NONE
    if seen.fault.evidence is not Truth.FALSE and since is not None:
        return job.having(evidence_false_since=None), Act.NONE
    return wait(job)


def watched(job: Job) -> bool:
    """Whether a closed job still follows the evidence: no other may follow while the incident
    lasts.
    """
    reason = job.close_reason
    return job.phase is not Phase.SHADOWED and reason is not None and reason.outlasts_the_job
