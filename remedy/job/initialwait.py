"""The initial wait of a new job: it exists and begins nothing until the wait is over. Pure.

    the rule matches      the job is created, Pending, with the wait in its spec
    groupWait             a stronger rule may match too: it supersedes the job
    startupGrace          the node was created, or has booted, a short while ago
    over, fault there     the job begins

Before the wait is over no step runs, and neither Kube Defender nor a person is asked: a job that
another one is about to supersede, or whose fault clears while the node starts, must cost nothing. A
fault that clears meanwhile ends the job after SETTLES; one that returns sooner finds the same job,
so a flapping fault makes no new job each time. groupWait then counts from its return. Once the wait
is over, evidence that stays unknown for DOUBTED ends the job too.
"""

from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import HoldReason, JobPhase
from kubenode.api.waits import WAITS
from remedy.job.model import CloseReason, Job, JobAct, JobObservation
from remedy.job.moves import SETTLES, SETTLING, Move, close, hold, may, wait
from remedy.job.silence import by_our_clock, has_passed
from rules.truth import Truth

REASONS = (HoldReason.GROUP_WAIT, HoldReason.STARTUP_GRACE)
"""Reasons of the hold of a job that has not begun and waits for time."""
DOUBTED = timedelta(minutes=5)
"""Longest time for which a job that could begin otherwise waits for unknown evidence."""


def unbegun(job: Job) -> bool:
    """Report whether the job is Pending, has an initial wait and has not begun since."""
    return job.phase is JobPhase.PENDING and never_began(job)


def never_began(job: Job) -> bool:
    """Report the same for a job in any phase: a closed one ended in its initial wait."""
    return job.spec.initial_wait is not None and job.status.timeline.job_created is None


def waits_for(job: Job) -> HoldReason | None:
    """Return what an open job waits for before it begins; None: it does not wait for time."""
    wait_, current_hold = job.spec.initial_wait, job.status.hold
    if wait_ is None or not unbegun(job) or job.close_reason is not None:
        return None
    reason = current_hold.reason if current_hold is not None else wait_.reason
    return next((known for known in REASONS if known == reason), None)


def waits_until(job: Job) -> datetime | None:
    """Return when the wait is over by the last evaluation; None: the job does not wait for time."""
    if waits_for(job) is None or job.spec.initial_wait is None:
        return None
    current_hold = job.status.hold
    return (
        current_hold.look_again_at if current_hold is not None else job.spec.initial_wait.not_before
    )


def begins_at(job: Job, observation: JobObservation) -> datetime | None:
    """Return when the initial wait is over; None: the job has none."""
    return None if job.spec.initial_wait is None else _ends(job, observation)[0]


def waiting(job: Job, observation: JobObservation) -> Move | None:
    """Wait or end before the job begins; None: the job may begin."""
    if job.spec.initial_wait is None:
        return None
    if (ended := _doubted(job, observation) or _gone(job, observation)) is not None:
        return ended
    at, reason = _ends(job, observation)
    if observation.now < at:
        return hold(job, observation.now, reason, WAITS[reason], until=at)
    return may(job, observation, evidence=True)


def _ends(job: Job, observation: JobObservation) -> tuple[datetime, HoldReason]:
    """Return when the wait is over, and its reason until then.

    A boot may be observed late; the wait is never over before startupGrace has passed since the
    boot.
    """
    given, back = job.spec.initial_wait, job.status.timeline.fault_seen
    assert given is not None
    ends = [(by_our_clock(observation, given.since, given.not_before), HoldReason(given.reason))]
    if back is not None:
        ends.append(
            (by_our_clock(observation, back, back + given.group_wait), HoldReason.GROUP_WAIT)
        )
    if observation.booted_at is not None:
        ends.append((observation.booted_at + given.startup_grace, HoldReason.STARTUP_GRACE))
    return max(ends, key=lambda end: end[0])


def _doubted(job: Job, observation: JobObservation) -> Move | None:
    """Close a job with evidence unknown for DOUBTED; None: not yet.

    It must not keep the node from a weaker rule, and a fault that is observed again gets a new job.
    """
    current_hold = job.status.hold
    if (
        current_hold is None
        or current_hold.since is None
        or current_hold.reason != HoldReason.FAULT_UNKNOWN
    ):
        return None
    doubted = observation.fresh and observation.fault.evidence is Truth.UNKNOWN
    if not doubted or not has_passed(observation, current_hold.since, current_hold.since + DOUBTED):
        return None
    why = "nobody knew for 5m whether the fault is there: it gets a new job when it is seen"
    return close(job, observation.now, CloseReason.FAULT_GONE, why)


def _gone(job: Job, observation: JobObservation) -> Move | None:
    """Wait, then close a job with evidence known false; None: it is true, or
    nothing is known.
    """
    since, evidence = job.status.evidence_false_since, observation.fault.evidence
    now = observation.now
    if evidence is Truth.FALSE and observation.fresh:
        if since is None:
            job = job.having(evidence_false_since=now)
            return hold(job, now, HoldReason.FAULT_UNKNOWN, SETTLING, until=now + SETTLES)
        if has_passed(observation, since, since + SETTLES):
            return close(job, now, CloseReason.FAULT_GONE, "the fault has gone by itself")
        return wait(job)
    if since is None:
        return None
    if evidence is not Truth.TRUE:
        return wait(job)
    timeline = job.status.timeline.model_copy(update={"fault_seen": now})
    return job.having(evidence_false_since=None, timeline=timeline, hold=None), JobAct.NONE
