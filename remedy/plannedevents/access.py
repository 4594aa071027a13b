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
from remedy.job.model import Job, JobActResult, JobObservation, NodeObservation, StepAct
from remedy.job.steps.events import next_to_approve
from remedy.plannedevents.observation import EventObservation, due_at
from remedy.power.access import NOBODY, PowerAccess, await_outcome
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

    async def planned(self, job: Job, node: NodeObservation | None) -> tuple[EventObservation, ...]:
        """Return the events that the job was made for, in their current state."""
        if not job.spec.host_events:
            return ()
        _, provider = self._power.of(job, node)
        repeatable = provider is not None and provider.can.repeatable
        now = self._clock.now()
        observations = (
            (self._events.get(name), observe_event(name, self._events.get(name), job, now))
            for name in job.spec.host_events
        )
        return tuple(
            replace(observed, repeatable=repeatable, shared=self._shared(event, job))
            for event, observed in observations
        )

    def _shared(self, event: HostEvent | None, job: Job) -> str:
        """Return why a shared event must not start; only computed while the job is about to approve
        it.
        """
        if event is None or job.step is None or job.step.approve_event is None:
            return ""
        alike = list(self._events.by(EXTERNAL, _external(event)))
        return shared(event, alike, self._jobs.cache.values())

    async def act(self, job: Job, what: StepAct, observation: JobObservation) -> JobActResult:
        """Approve at the provider the event that the step's record names."""
        event = next_to_approve(job, observation.events)
        if event is None:
            return JobActResult(what, outcome=RequestOutcome.TAKEN)
        machine, provider = self._power.of(job, observation.node)
        if provider is None:
            why = NOBODY.format(id=machine.provider_id)
            return JobActResult(what, outcome=RequestOutcome.REFUSED, error=why)
        if not provider.can.approve:
            why = CANNOT.format(provider=provider.name)
            return JobActResult(what, outcome=RequestOutcome.REFUSED, error=why)
        return await await_outcome(what, provider.approve(machine, event.external_id))


def observe_event(name: str, event: HostEvent | None, job: Job, now: datetime) -> EventObservation:
    """Return the observation of the HostEvent `name` of a job's evidence. Pure."""
    if event is None or not _about(event, job):
        return EventObservation(name)
    spec, phase = event.spec, phase_at(event, now)
    return EventObservation(
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
    nodes = {each.spec.node.name for each in alike if each.spec.node.name}
    if named.endswith("…") or len(nodes) < machines:
        return f"the event is of {machines} machines, and {len(nodes)} of them are known to be ours"
    names = {each.metadata.name for each in alike}
    empty = {
        job.spec.node_name
        for job in jobs
        if not job.status.phase.closed and names & set(job.spec.host_events) and approves(job)
    }
    pending = sorted(nodes - empty - {event.spec.node.name})
    return f"the event is of node {pending[0]} too, which is not empty yet" if pending else ""


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
    target = event.spec.node
    same = target.uid in ("", job.spec.node_uid) or not job.spec.node_uid
    return target.name == job.spec.node_name and same
