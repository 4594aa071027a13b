"""Reads the planned events of a job from the informer, and approves them through the provider."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from kubenode.api.v1alpha1 import HostEvent, RemedyOperationJob
from kubenode.api.v1alpha1.hostevent import HostEventSource
from kubenode.api.v1alpha1.remedyoperationjob import StepState
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.informer import Informer
from remedy.hostdoctor.record import note_of
from remedy.job.model import Job, JobAct, JobActResult, JobObservation, NodeSeen
from remedy.job.steps.events import next_to_approve
from remedy.plannedevents.observation import EventSeen, due_at
from remedy.power.access import NOBODY, PowerAccess, heard
from remedy.power.observation import RequestOutcome
from remedy.remedier.hostevents import phase_at

EXTERNAL = "external"
INSIDE = frozenset({HostEventSource.AZURE})
"""Clouds that accept an approval only from inside the machine."""
RESOURCES = "resources"
"""Attribute of an event of several machines: their names (remedy.hostdoctor.parsers.azure_imds)."""
CANNOT = "{provider} has no way to say that a planned act may start: leave approveEvent out"


class EventAccess:
    """Access to planned events. `events` and `jobs` are the informers of all HostEvents
    and jobs.
    """

    def __init__(
        self,
        events: Informer[HostEvent],
        jobs: Informer[RemedyOperationJob],
        power: PowerAccess,
        clock: Clock,
    ) -> None:
        self._events, self._jobs, self._power, self._clock = events, jobs, power, clock
        events.add_index(EXTERNAL, lambda event: (_external(event),))

    async def planned(self, job: Job, node: NodeSeen | None) -> tuple[EventSeen, ...]:
        """Return the events that the job was made for, in their current state."""
        if not job.spec.host_events:
            return ()
        _, provider = self._power.of(job, node)
        repeatable = provider is not None and provider.can.repeatable
        now = self._clock.now()
        found = (
            (self._events.get(name), event_seen(name, self._events.get(name), job, now))
            for name in job.spec.host_events
        )
        return tuple(
            replace(seen, repeatable=repeatable, shared=self._shared(event, job))
            for event, seen in found
        )

    def _shared(self, event: HostEvent | None, job: Job) -> str:
        """Return why a shared event must not start; only computed while the job is about to approve
        it.
        """
        if event is None or job.step is None or job.step.approve_event is None:
            return ""
        alike = list(self._events.by(EXTERNAL, _external(event)))
        return shared(event, alike, self._jobs.cache.values())

    async def approve(self, job: Job, seen: JobObservation) -> JobActResult:
        """Approve at the provider the event that the step's record names."""
        event = next_to_approve(job, seen.events)
        if event is None:
            return JobActResult(JobAct.APPROVE_EVENT, outcome=RequestOutcome.TAKEN)
        machine, provider = self._power.of(job, seen.node)
        if provider is None:
            why = NOBODY.format(id=machine.provider_id)
            return JobActResult(JobAct.APPROVE_EVENT, outcome=RequestOutcome.REFUSED, error=why)
        if not provider.can.approve:
            why = CANNOT.format(provider=provider.name)
            return JobActResult(JobAct.APPROVE_EVENT, outcome=RequestOutcome.REFUSED, error=why)
        return await heard(JobAct.APPROVE_EVENT, provider.approve(machine, event.external_id))


def event_seen(name: str, event: HostEvent | None, job: Job, now: datetime) -> EventSeen:
    """Return the observation of the HostEvent `name` of a job's evidence. Pure."""
    if event is None or not _about(event, job):
        return EventSeen(name)
    spec, phase = event.spec, phase_at(event, now)
    return EventSeen(
        name=name,
        phase=phase,
        class_=spec.class_,
        source=spec.source,
        external_id=spec.external_id,
        due=due_at(phase, spec.not_before, event.status.first_seen),
        inside=spec.source in INSIDE,
        by_agent=note_of(event).of_agents,
    )


def shared(event: HostEvent, alike: Sequence[HostEvent], jobs: Iterable[RemedyOperationJob]) -> str:
    """Return why an event of several machines must not start yet, "" if it may. Pure.

    One approval starts it on all of them: each must be one of our nodes with a job that is about to
    approve it too.

    alike: the HostEvents of the same event, including this one
    """
    named = event.spec.attributes.get(RESOURCES, "")
    if not named:
        return ""
    machines = len(named.split(","))
    nodes = {one.spec.node.name for one in alike if one.spec.node.name}
    if named.endswith("…") or len(nodes) < machines:
        return f"the event is of {machines} machines, and {len(nodes)} of them are known to be ours"
    names = {one.metadata.name for one in alike}
    empty = {
        job.spec.node_name
        for job in jobs
        if not job.status.phase.closed and names & set(job.spec.host_events) and approves(job)
    }
    left = sorted(nodes - empty - {event.spec.node.name})
    return f"the event is of node {left[0]} too, which is not empty yet" if left else ""


def approves(job: RemedyOperationJob) -> bool:
    """Report whether the job's pods have left and it is about to approve the event, or has approved
    it.
    """
    return any(
        record.name == "approveEvent" and record.state is not StepState.WAITING
        for record in job.status.steps
        if record.rung == job.status.rung
    )


def _external(event: HostEvent) -> str:
    return f"{event.spec.source}/{event.spec.external_id}"


def _about(event: HostEvent, job: Job) -> bool:
    """Report whether the event is still about the job's node."""
    told = event.spec.node
    same = told.uid in ("", job.spec.node_uid) or not job.spec.node_uid
    return told.name == job.spec.node_name and same
