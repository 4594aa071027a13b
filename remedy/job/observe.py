"""Reads the outside world for one job. I/O, no decision: reads only what the phase needs."""

from datetime import datetime, timedelta
from typing import Protocol

from kubenode.api.v1alpha1 import Disruption, JobPhase, Verdict
from kubenode.api.v1alpha1.ladder import Remainder, list_steps
from remedy.job.initialwait import unbegun
from remedy.job.model import (
    CloseReason,
    FaultAssessment,
    Job,
    JobActResult,
    JobObservation,
    NodeObservation,
    Pods,
)
from remedy.job.moves import needed
from remedy.job.planned_events import holding
from remedy.job.power_demand import asks_power
from remedy.job.stepaccess import StepAccess
from remedy.job.steps.provider_request import (
    force_fault_true,
)
from remedy.plannedevents.observation import EventObservation
from remedy.power.observation import PowerObservation
from rules.truth import Truth


class JobReader(Protocol):
    """What the job controller may read."""

    def fresh(self, job: Job) -> bool:
        """Report whether the caches are current enough to act on."""
        ...

    def hearing_since(self) -> datetime | None:
        """Return the start of the time without a gap in our caches; None: there is a gap now."""
        ...

    def clock_since(self) -> datetime:
        """Return since when this process leads with a clock that was not set."""
        ...

    async def node(self, job: Job, *, live: bool) -> NodeObservation | None:
        """Return the job's node; None if it is gone or has another uid. `live` reads it from the
        API server.
        """
        ...

    async def fault(self, job: Job) -> FaultAssessment: ...

    async def check(self, permit: str, seconds: float) -> Verdict | None:
        """Return Kube Defender's verdict on a permit; None if there is no answer. `seconds`: how
        long the permit must still be valid.
        """
        ...

    async def pods(self, job: Job) -> Pods: ...

    def stronger(self, job: Job) -> str:
        """Return the rule that would supersede the job now; "" for none."""
        ...

    def successor(self, job: Job) -> Job | None:
        """Return the job that supersedes this one; None if there is none."""
        ...

    async def unavailable(self, job: Job, now: datetime) -> timedelta:
        """Return the total time for which pods that this job evicted had no ready replacement."""
        ...

    async def power(self, job: Job, node: NodeObservation | None) -> PowerObservation:
        """Return the provider's reading of the node's machine, or why there is none."""
        ...

    async def planned(self, job: Job, node: NodeObservation | None) -> tuple[EventObservation, ...]:
        """Return the planned events that the job was made for, in their current state."""
        ...

    def booted_at(self, job: Job) -> datetime | None:
        """Return when the job's node last booted, by our clock; None if unknown."""
        ...

    def recorded(self, job: Job) -> bool:
        """Report whether the node record holds all that later decisions need from a closed job."""
        ...

    def outnumbered(self, job: Job) -> bool:
        """Report whether so many jobs of the node closed after this one that it need not stay."""
        ...

    def restored(self) -> bool:
        """Report whether a restore of etcd from a backup stops acts."""
        ...


async def observe(
    job: Job,
    world: JobReader,
    steps: StepAccess,
    now: datetime,
    act_result: JobActResult | None = None,
    *,
    woken: bool = False,
    unasked: bool = False,
) -> JobObservation:
    """Read what the job's phase and step need, and return it as one observation."""
    pods = await world.pods(job) if _draining(job) else None
    live = _acting(job) and (pods is None or pods.moves)
    node = await world.node(job, live=live) if not job.phase.closed else None
    fault = await world.fault(job) if _asks_for_the_fault(job) else FaultAssessment()
    # Read after the fault: an event that begins in between clears its evidence, and must be seen.
    events = await world.planned(job, node) if not job.phase.closed else ()
    power = await world.power(job, node) if asks_power(job, node) else None
    return JobObservation(
        now=now,
        node=node,
        fresh=world.fresh(job),
        hearing_since=world.hearing_since(),
        clock_since=world.clock_since(),
        fault=holding(force_fault_true(job, fault, power), events),
        permit=await _permit(job, world),
        pods=pods,
        unavailable=await world.unavailable(job, now) if _proving(job, fault, now) else None,
        stronger=world.stronger(job) if not job.phase.closed else "",
        successor=world.successor(job) if _superseded(job) else None,
        act_result=act_result,
        woken=woken,
        power=power,
        step=await steps.observe(job, node),
        unasked=unasked,
        events=events,
        booted_at=world.booted_at(job) if unbegun(job) else None,
        recorded=not job.phase.closed or world.recorded(job),
        outnumbered=job.phase.closed and world.outnumbered(job),
        restored=world.restored(),
    )


def _superseded(job: Job) -> bool:
    return not job.phase.closed and job.close_reason is CloseReason.SUPERSEDED


def _is_successor(job: Job) -> bool:
    return job.phase is JobPhase.PENDING and bool(job.spec.supersedes)


def _acting(job: Job) -> bool:
    """Report whether the next act may be on the node: then a read from the cache is not enough."""
    if job.close_reason is not None or _is_successor(job):
        return True
    return job.phase is JobPhase.RUNNING and not job.awaits_agent


def _asks_for_the_fault(job: Job) -> bool:
    match job.phase:
        case _ if job.phase.closed:
            return False
        case JobPhase.PENDING:
            return unbegun(job) and job.close_reason is None
        case JobPhase.RUNNING:
            return _disrupting(job) or _waits_for_event(job)
        case _:
            return job.close_reason is None


def _disrupting(job: Job) -> bool:
    step = job.step
    return (
        job.phase is JobPhase.RUNNING
        and job.close_reason is None
        and not job.awaits_agent
        and step is not None
        and (step.disruption is not Disruption.NONE or step.name in ASKS_OTHERS)
    )


def _waits_for_event(job: Job) -> bool:
    """Report whether the step waits for an event. A postponed event is no evidence until it is near
    again.
    """
    waits = job.step is not None and job.step.wait_for_event is not None
    return waits and job.close_reason is None


ASKS_OTHERS = list_steps(lambda kind: kind.signals and kind.remainder is Remainder.OTHERS)
"""Steps by which other systems act on the node: they need the same checks as our own acts."""


async def _permit(job: Job, world: JobReader) -> Verdict | None:
    permit, step = job.status.permit, job.step
    if permit is None or step is None or not _disrupting(job):
        return None
    return await world.check(permit.name, needed(step).total_seconds())


def _draining(job: Job) -> bool:
    step = job.step
    return (
        _disrupting(job)
        and step is not None
        and (step.migrate is not None or step.fence is not None)
        and job.running_record is not None
    )


def _proving(job: Job, fault: FaultAssessment, now: datetime) -> bool:
    since, verify = job.status.evidence_false_since, job.rung.verify
    return (
        job.phase in (JobPhase.VERIFYING, JobPhase.NEEDS_HUMAN)
        and job.close_reason is None
        and since is not None
        and (fault.gone is Truth.TRUE or bool(verify.checks))
        and now >= since + verify.for_
    )
