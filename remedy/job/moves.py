"""Transitions of a job: wait with a reason, enter a phase, escalate, give up, end.

Each returns (job, act): either the job changed or an act is chosen, never both. So the status holds
the intent before the act begins.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from kubenode.api import conditions as api_conditions
from kubenode.api.conditions import ConditionUpdate
from kubenode.api.meta import Condition
from kubenode.api.v1alpha1 import Disruption, HoldReason, JobPhase, Reason, Step, Verdict
from kubenode.api.v1alpha1.noderemedier import OnGiveUp
from kubenode.api.v1alpha1.remedyoperationjob import (
    Hold,
    PermitStatus,
    StepState,
    StepStatus,
)
from remedy.job.model import ACTED, CLOSING, CloseReason, Job, JobAct, JobObservation
from remedy.job.power_record import replaced, switched_off
from remedy.job.silence import has_passed
from remedy.job.undo import owns
from rules.truth import Truth

Move = tuple[Job, JobAct]
"""The job after a decision, and the act to do. If the job changed, the act is NONE."""
FAULT_UNKNOWN = str(HoldReason.FAULT_UNKNOWN)

REQUEUE_AFTER = timedelta(seconds=30)
"""Default time until a hold that no other event would wake is evaluated again."""
FURTHEST = timedelta(hours=1)
"""Upper bound of the times that Kube Defender gives for asking again; it gives at most half of
this.
"""
YIELD_LONGEST = timedelta(hours=1)
"""Upper bound of the pause after a drain that yielded; a longer step timeout raises it."""
LONGEST_DOUBT = timedelta(hours=1)
"""Longest time for which a job keeps its changes on a node while the evidence is unknown."""
SETTLES = timedelta(seconds=30)
"""A fault has gone when its evidence has been known false for this long."""
SETTLING = "the fault is not there now: if it stays away for 30s the job ends, until then it waits"
MESSAGE = 1024
"""Longest message in a status, in characters."""
ACT = timedelta(minutes=1)
"""Longest duration of a single act of the operator: a permit must be valid for that long."""


def wait(job: Job) -> Move:
    """Change nothing and do nothing."""
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
    """Wait, and record the reason. The same hold is written again only when its time to reconcile
    has passed.

    scope: scope of the limit or budget that refused, "" for none
    until: when to evaluate the hold again; None: after LOOK_AGAIN
    quiet: delays that repeated write by so much more and ignores a changed message: a thousand jobs
        that wait for one slot must not write each time they ask. `remedy.job.wake` uses the time of
        the last verdict instead of the one in the hold.
    """
    new = Hold(
        reason=reason,
        scope=scope[:317],
        message=message[:MESSAGE],
        look_again_at=max(until or now + REQUEUE_AFTER, now + timedelta(seconds=1)),
    )
    old = job.status.hold
    if old is not None and not due(job, now - quiet):
        current = (new.reason, new.scope, old.message if quiet else new.message)
        if (old.reason, old.scope, old.message) == current:
            return wait(job)
    return job.having(hold=new), JobAct.NONE


def timed(before: Job, after: Job, now: datetime) -> Job:
    """Return `after` with the duration of holds: the start of the current one and the sum of all.
    Unknown evidence starts a hold of its own, because its duration is bounded.
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
    total = (timeline.held or timedelta(0)) + max(now - since, timedelta(0))
    return job.having(timeline=timeline.model_copy(update={"held": total}))


def due(job: Job, now: datetime) -> bool:
    """Report whether the job's hold is due to be evaluated again, or there is none."""
    old = job.status.hold
    return old is None or old.look_again_at is None or now >= old.look_again_at


def asks_again(job: Job, now: datetime) -> bool:
    """Report whether the time to ask Kube Defender again has come. A time that is further away than
    Kube Defender ever gives comes from a clock that was set back, and counts as due.
    """
    return due(job, now) or not due(job, now + FURTHEST)


def is_waiting_for(job: Job, *reasons: str) -> bool:
    """Report whether the job has a hold for one of these reasons."""
    return job.status.hold is not None and job.status.hold.reason in reasons


def enter(job: Job, phase: JobPhase, message: str = "", **changes: object) -> Move:
    """Enter another phase. The hold of the old phase ends unless `changes` set one."""
    return job.having(
        phase=phase, message=message[:MESSAGE], **{"hold": None, **changes}
    ), JobAct.NONE


def set_condition(
    job: Job, now: datetime, type_: str, reason: str, message: str = "", *, status: bool = True
) -> list[Condition]:
    """Return the job's conditions with this one."""
    update = ConditionUpdate.of(status, reason, message)
    return api_conditions.set_condition(
        job.status.conditions, type_, update, generation=job.generation, now=now
    )


def granted(job: Job, now: datetime, verdict: Verdict) -> Job:
    """Store the permit of `verdict` in the status; the first grant sets the timeline."""
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
    """Escalate to the next rung, or give up if there is none."""
    after = job.status.rung + 1
    if after >= len(job.spec.ladder):
        return give_up(job, now, f"{why}; no rung is left")
    return enter(
        job,
        JobPhase.AWAITING_PERMIT,
        f"rung {job.rung.name}: {why}",
        rung=after,
        step=0,
        conditions=[c for c in job.status.conditions if c.type != ACTED],
        verifying_since=None,
        evidence_false_since=None,
    )


def give_up(job: Job, now: datetime, why: str) -> Move:
    """Enter NeedsHuman or close the job as given up, depending on `onGiveUp`."""
    if job.spec.on_give_up is OnGiveUp.HOLD:
        if switched_off(job) and not replaced(job):
            why = f"{why[: MESSAGE // 2]}; the machine is off: this job switched it off"
        return enter(job, JobPhase.NEEDS_HUMAN, why, evidence_false_since=None)
    return close(job, now, CloseReason.GAVE_UP, why)


def close(job: Job, now: datetime, reason: CloseReason, why: str) -> Move:
    """End the job. It first undoes its own changes on the node and releases the permit."""
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
    """Enter the closed phase of `reason`."""
    timeline = job.status.timeline.model_copy(update={"closed": now})
    return enter(job, reason.phase, job.status.message, timeline=timeline)


def _nothing_goes_on(steps: Sequence[StepStatus], now: datetime) -> list[StepStatus]:
    """Set steps that were under way when their job ended to Cancelled, which is not Done (F16)."""
    going = (StepState.RUNNING, StepState.WAITING)
    return [
        r.model_copy(update={"state": StepState.CANCELLED, "finished_at": now})
        if r.state in going
        else r
        for r in steps
    ]


def healed(job: Job, observation: JobObservation) -> Move | None:
    """Close a job when its fault has gone before the first irreversible step; None: the caches are
    stale or the evidence is not known false.

    The job keeps its changes on the node for SETTLES and does nothing meanwhile: a detector that
    restarts clears its fault for a moment, and a node must not be uncordoned and drained again.
    """
    if not observation.fresh or observation.fault.evidence is not Truth.FALSE:
        return None
    since = job.status.evidence_false_since
    if not owns(job) or (since is not None and has_passed(observation, since, since + SETTLES)):
        return close(job, observation.now, CloseReason.FAULT_GONE, "the fault has gone by itself")
    if since is not None:
        return wait(job)
    job = job.having(evidence_false_since=observation.now)
    until = observation.now + SETTLES
    return hold(job, observation.now, HoldReason.FAULT_UNKNOWN, SETTLING, until=until)


def reset_false_since(job: Job, observation: JobObservation) -> Move | None:
    """Reset the time since which the evidence is false: it is true again, or unknown. None: no
    change.
    """
    if job.status.evidence_false_since is None or observation.fault.evidence is Truth.FALSE:
        return None
    return job.having(evidence_false_since=None), JobAct.NONE


def may(job: Job, observation: JobObservation, *, evidence: bool) -> Move | None:
    """Return None when nothing prevents an act that disrupts; else the hold or the end with the
    reason.

    evidence: whether the evidence must still be known true: False once this rung did something that
        cannot be undone
    """
    if not observation.fresh:
        return hold(
            job, observation.now, Reason.STALE_DATA, "what we know of the cluster is out of date"
        )
    fault = observation.fault
    if evidence and (gone := healed(job, observation)) is not None:
        return gone
    if evidence and fault.evidence is Truth.UNKNOWN:
        return doubted(job, observation, fault.why or "the evidence is unknown")
    if evidence and not fault.agreed:
        why = fault.why or "the rule engines do not agree"
        return hold(job, observation.now, HoldReason.ENGINES_DISAGREE, why)
    if fault.guards is not Truth.FALSE:
        state = "is true" if fault.guards is Truth.TRUE else "is unknown"
        return hold(
            job, observation.now, HoldReason.GUARD_TRUE, fault.why or f"a guard of the rule {state}"
        )
    return None


def doubted(job: Job, observation: JobObservation, why: str) -> Move:
    """Wait while the evidence is unknown. A job with changes on the node waits for at most
    LONGEST_DOUBT; then it gives up as `onGiveUp` says: a person is called, or the node is released.
    """
    current_hold, now = job.status.hold, observation.now
    since = (
        current_hold.since
        if current_hold is not None and is_waiting_for(job, HoldReason.FAULT_UNKNOWN)
        else None
    )
    if since is not None and owns(job) and has_passed(observation, since, since + LONGEST_DOUBT):
        return give_up(job, now, f"nobody knows for an hour whether the fault is there: {why}")
    return hold(job, now, HoldReason.FAULT_UNKNOWN, why)


def stands(job: Job, observation: JobObservation) -> Move | None:
    """Return None when the permit is valid for as long as the step needs it; else the move that
    regains it.

    A permit is renewed first, since it may only expire too soon. A lost permit is requested anew at
    the times of the hold.
    """
    if job.disruption is Disruption.NONE or (
        observation.permit is not None and observation.permit.allowed
    ):
        return None
    now, result = observation.now, observation.act_result
    if result is not None and result.act in (JobAct.RENEW_PERMIT, JobAct.ASK_PERMIT):
        verdict = result.verdict
        if verdict is not None and verdict.allowed:
            if verdict.expires_at is None or verdict.expires_at >= now + needed(job.step):
                return granted(job, now, verdict).having(hold=None), JobAct.NONE
            why = "permits are shorter than this step: raise their life or lower its timeout"
        else:
            why = verdict.message if verdict is not None else result.error
        until = verdict.look_again_at if verdict is not None else None
        scope = verdict.scope if verdict is not None else ""
        why = f"permit lost: {why}"
        return hold(job, now, HoldReason.PERMIT_LOST, why, scope=scope, until=until)
    if not is_waiting_for(job, HoldReason.PERMIT_LOST):
        return job, JobAct.RENEW_PERMIT
    return (job, JobAct.ASK_PERMIT) if asks_again(job, now) or observation.woken else wait(job)


def needed(step: Step | None) -> timedelta:
    """Return how long a permit must be valid right before an act of `step`."""
    return step.body.timeout if step is not None and step.agent is not None else ACT
