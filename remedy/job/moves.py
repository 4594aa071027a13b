"""The moves a job can make: wait with a reason, change phase, climb, give up, end.

Each answers (job, act) where either the job changed or an act is chosen, never both. So what is
about to be done is always in the status, written and awaited, before it is done.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from kubenode.api.meta import Condition, ConditionStatus
from kubenode.api.v1alpha1 import Disruption, HoldReason, JobPhase, Reason, Step, Verdict
from kubenode.api.v1alpha1.noderemedier import OnGiveUp
from kubenode.api.v1alpha1.remedyoperationjob import (
    Hold,
    PermitStatus,
    StepState,
    StepStatus,
)
from remedy.job.model import CLOSING, CloseReason, Job, JobAct, JobObservation
from remedy.job.power_record import replaced, switched_off
from remedy.job.silence import over
from remedy.job.undo import owns
from rules.truth import Truth

Move = tuple[Job, JobAct]
FAULT_UNKNOWN = str(HoldReason.FAULT_UNKNOWN)

LOOK_AGAIN = timedelta(seconds=30)
"""After this a hold is looked at again that nothing else would wake."""
FURTHEST = timedelta(hours=1)
"""Kube Defender says to look again in half of this at the latest."""
YIELD_LONGEST = timedelta(hours=1)
LONGEST_DOUBT = timedelta(hours=1)
"""For so long a job keeps what it has on a node of which nobody knows whether it is faulty."""
SETTLES = timedelta(seconds=30)
"""A fault that is known false for so long has gone."""
SETTLING = "the fault is not there now: if it stays away for 30s the job ends, until then it waits"
MESSAGE = 1024
ACT = timedelta(minutes=1)
"""How long a single central act may take: a permit must be valid for that long."""


def wait(job: Job) -> Move:
    return job, JobAct.NONE


def hold(
    job: Job,
    now: datetime,
    reason: HoldReason | Reason,
    message: str,
    *,
    scope: str = "",
    until: datetime | None = None,
    quiet: timedelta = timedelta(0),
) -> Move:
    """Wait, and say why. The same hold is written again only when its time to look has passed.

    quiet   and then only so much later, whatever the message counts: a thousand jobs that wait for
            one slot must not write whenever they ask; `remedy.job.wake` heeds what was heard
    """
    new = Hold(
        reason=reason,
        scope=scope[:317],
        message=message[:MESSAGE],
        look_again_at=max(until or now + LOOK_AGAIN, now + timedelta(seconds=1)),
    )
    old = job.status.hold
    if old is not None and not due(job, now - quiet):
        told = (new.reason, new.scope, old.message if quiet else new.message)
        if (old.reason, old.scope, old.message) == told:
            return wait(job)
    return job.having(hold=new), JobAct.NONE


def timed(before: Job, after: Job, now: datetime) -> Job:
    """`after` with the time that holds took: since when this one lasts, and the sum of all. Doubt
    about the fault begins a hold of its own, as it is bounded.
    """
    old, new = before.status.hold, after.status.hold
    if old is new:
        return after
    since = (old.since if old is not None else None) or now
    doubts = new is not None and new.reason == FAULT_UNKNOWN
    if new is not None and doubts and old is not None and old.reason != FAULT_UNKNOWN:
        return _summed(after, since, now).having(hold=new.model_copy(update={"since": now}))
    if new is not None:
        return after.having(hold=new.model_copy(update={"since": since}))
    return _summed(after, since, now)


def _summed(job: Job, since: datetime, now: datetime) -> Job:
    timeline = job.status.timeline
    held = (timeline.held or timedelta(0)) + max(now - since, timedelta(0))
    return job.having(timeline=timeline.model_copy(update={"held": held}))


def due(job: Job, now: datetime) -> bool:
    """Whether the job's hold is to be looked at again, or there is none."""
    old = job.status.hold
    return old is None or old.look_again_at is None or now >= old.look_again_at


def asks_again(job: Job, now: datetime) -> bool:
    """Whether the time to ask Kube Defender again has come. One that is further away than it ever
    says comes of a clock that was set back.
    """
    return due(job, now) or not due(job, now + FURTHEST)


def held_for(job: Job, *reasons: str) -> bool:
    return job.status.hold is not None and job.status.hold.reason in reasons


def enter(job: Job, phase: JobPhase, message: str = "", **changes: object) -> Move:
    """Into another phase; the hold of the old one ends unless `changes` set one."""
    return job.having(
        phase=phase, message=message[:MESSAGE], **{"hold": None, **changes}
    ), JobAct.NONE


def set_condition(
    job: Job, now: datetime, type_: str, reason: str, message: str = "", *, status: bool = True
) -> list[Condition]:
    """The job's conditions with this one; its time moves when the status or the reason does."""
    state = ConditionStatus.TRUE if status else ConditionStatus.FALSE
    old = job.condition(type_)
    same = old is not None and (old.status, old.reason) == (state, reason)
    new = Condition(
        type=type_,
        status=state,
        reason=reason,
        message=message[:MESSAGE],
        last_transition_time=old.last_transition_time if old is not None and same else now,
    )
    return [c for c in job.status.conditions if c.type != type_] + [new]


def granted(job: Job, now: datetime, verdict: Verdict) -> Job:
    """The permit of `verdict` in the status; the first grant is the timeline's."""
    first = job.status.permit
    at = verdict.granted_at or (first.granted_at if first else None) or now
    permit = PermitStatus(
        name=verdict.permit or (first.name if first else ""),
        class_=verdict.class_ or job.disruption,
        granted_at=at,
        expires_at=verdict.expires_at,
    )
    timeline = job.status.timeline
    if timeline.permit_granted is None:
        timeline = timeline.model_copy(update={"permit_granted": at})
    conditions = set_condition(job, now, "Permitted", Reason.GRANTED)
    return job.having(permit=permit, timeline=timeline, conditions=conditions)


def climb(job: Job, now: datetime, why: str) -> Move:
    """To the next rung, or give up where there is none."""
    after = job.status.rung + 1
    if after >= len(job.spec.ladder):
        return give_up(job, now, f"{why}; no rung is left")
    return enter(
        job,
        JobPhase.AWAITING_PERMIT,
        f"rung {job.rung.name}: {why}",
        rung=after,
        step=0,
        evidence_false_since=None,
    )


def give_up(job: Job, now: datetime, why: str) -> Move:
    if job.spec.on_give_up is OnGiveUp.HOLD:
        if switched_off(job) and not replaced(job):
            why = f"{why[: MESSAGE // 2]}; the machine is off: this job switched it off"
        return enter(job, JobPhase.NEEDS_HUMAN, why, evidence_false_since=None)
    return close(job, now, CloseReason.GAVE_UP, why)


def close(job: Job, now: datetime, reason: CloseReason, why: str) -> Move:
    """End the job; first what is ours on the node is undone and the permit released."""
    conditions = set_condition(job, now, CLOSING, reason, why)
    ended = job.having(
        conditions=conditions,
        message=why[:MESSAGE],
        hold=None,
        steps=_nothing_goes_on(job.status.steps, now),
        evidence_false_since=None,
    )
    if owns(job) or job.status.permit is not None:
        return ended, JobAct.NONE
    return closed(ended, now, reason)


def closed(job: Job, now: datetime, reason: CloseReason) -> Move:
    timeline = job.status.timeline.model_copy(update={"closed": now})
    return enter(job, reason.phase, job.status.message, timeline=timeline)


def _nothing_goes_on(steps: Sequence[StepStatus], now: datetime) -> list[StepStatus]:
    """A step that was under way when its job ended is Cancelled, which is not Done (F16)."""
    going = (StepState.RUNNING, StepState.WAITING)
    return [
        r.model_copy(update={"state": StepState.CANCELLED, "finished_at": now})
        if r.state in going
        else r
        for r in steps
    ]


def healed(job: Job, seen: JobObservation) -> Move | None:
    """The end of a job whose fault is known to have gone before anything bound it.

    What the job has on the node stays for SETTLES: a detector that starts anew takes its fault back
    for a moment, and a node must not be given back and emptied again. Nothing is done meanwhile.
    """
    if not seen.fresh or seen.fault.evidence is not Truth.FALSE:
        return None
    since = job.status.evidence_false_since
    if not owns(job) or (since is not None and over(seen, since, since + SETTLES)):
        return close(job, seen.now, CloseReason.FAULT_GONE, "the fault has gone by itself")
    if since is not None:
        return wait(job)
    job = job.having(evidence_false_since=seen.now)
    until = seen.now + SETTLES
    return hold(job, seen.now, HoldReason.FAULT_UNKNOWN, SETTLING, until=until)


def seen_again(job: Job, seen: JobObservation) -> Move | None:
    """The fault is there again, or nobody knows: it has not gone yet."""
    if job.status.evidence_false_since is None or seen.fault.evidence is Truth.FALSE:
        return None
    return job.having(evidence_false_since=None), JobAct.NONE


def may(job: Job, seen: JobObservation, *, evidence: bool) -> Move | None:
    """None when nothing speaks against an act that disrupts; else the hold, or the end, that says
    why.

    evidence   whether the fault must still be plain true: not once this rung did what cannot be
    undone
    """
    if not seen.fresh:
        return hold(job, seen.now, Reason.STALE_DATA, "what we know of the cluster is out of date")
    fault = seen.fault
    if evidence and (gone := healed(job, seen)) is not None:
        return gone
    if evidence and fault.evidence is Truth.UNKNOWN:
        return doubted(job, seen, fault.why or "the evidence is unknown")
    if evidence and not fault.agreed:
        why = fault.why or "the rule engines do not agree"
        return hold(job, seen.now, HoldReason.ENGINES_DISAGREE, why)
    if fault.guards is not Truth.FALSE:
        state = "is true" if fault.guards is Truth.TRUE else "is unknown"
        return hold(
            job, seen.now, HoldReason.GUARD_TRUE, fault.why or f"a guard of the rule {state}"
        )
    return None


def doubted(job: Job, seen: JobObservation, why: str) -> Move:
    """Wait while nobody knows whether the fault is there, but not for ever with something of ours
    on the node: after LONGEST_DOUBT a person is called, or the node is given back, by `onGiveUp`.
    """
    held, now = job.status.hold, seen.now
    since = held.since if held is not None and held_for(job, HoldReason.FAULT_UNKNOWN) else None
    if since is not None and owns(job) and over(seen, since, since + LONGEST_DOUBT):
        return give_up(job, now, f"nobody knows for an hour whether the fault is there: {why}")
    return hold(job, now, HoldReason.FAULT_UNKNOWN, why)


def stands(job: Job, seen: JobObservation) -> Move | None:
    """None when the permit is held for as long as the step needs it; else the move that regains it.

    First it is renewed, for it may only end too soon; a lost one is asked for anew, at the times of
    the hold.
    """
    if job.disruption is Disruption.NONE or (seen.permit is not None and seen.permit.allowed):
        return None
    now, heard = seen.now, seen.heard
    if heard is not None and heard.act in (JobAct.RENEW_PERMIT, JobAct.ASK_PERMIT):
        verdict = heard.verdict
        if verdict is not None and verdict.allowed:
            if verdict.expires_at is None or verdict.expires_at >= now + needed(job.step):
                return granted(job, now, verdict).having(hold=None), JobAct.NONE
            why = "permits are shorter than this step: raise their life or lower its timeout"
        else:
            why = verdict.message if verdict is not None else heard.error
        until = verdict.look_again_at if verdict is not None else None
        scope = verdict.scope if verdict is not None else ""
        why = f"permit lost: {why}"
        return hold(job, now, HoldReason.PERMIT_LOST, why, scope=scope, until=until)
    if not held_for(job, HoldReason.PERMIT_LOST):
        return job, JobAct.RENEW_PERMIT
    return (job, JobAct.ASK_PERMIT) if asks_again(job, now) or seen.woken else wait(job)


def needed(step: Step | None) -> timedelta:
    """How long a permit must be valid right before an act of `step`."""
    return step.body.timeout if step is not None and step.agent is not None else ACT
