"""The planned events of a job: read from the informer, and let go ahead through the provider."""

from datetime import datetime

from kubenode.api.v1alpha1 import HostEvent
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.informer import Informer
from remedy.job.model import Act, Heard, Job, NodeSeen, Seen
from remedy.job.steps.events import next_to_approve
from remedy.planned.seen import EventSeen, due_at
from remedy.power.access import NOBODY, PowerAccess, heard
from remedy.power.seen import Outcome
from remedy.remedier.hostevents import phase_at

CANNOT = "{provider} has no way to say that a planned act may start: leave approveEvent out"


class EventAccess:
    """`events` is the informer of all HostEvents."""

    def __init__(self, events: Informer[HostEvent], power: PowerAccess, clock: Clock) -> None:
        self._events, self._power, self._clock = events, power, clock

    async def planned(self, job: Job, node: NodeSeen | None) -> tuple[EventSeen, ...]:
        """Those that the job was made for, as they are now."""
        if not job.spec.host_events:
            return ()
        _, provider = self._power.of(job, node)
        repeatable = provider is not None and provider.can.repeatable
        now = self._clock.now()
        return tuple(
            event_seen(name, self._events.get(name), job, now, repeatable=repeatable)
            for name in job.spec.host_events
        )

    async def approve(self, job: Job, seen: Seen) -> Heard:
        """Tell the provider of the event that the step's record names."""
        event = next_to_approve(job, seen.events)
        if event is None:
            return Heard(Act.APPROVE_EVENT, outcome=Outcome.TAKEN)
        machine, provider = self._power.of(job, seen.node)
        if provider is None:
            why = NOBODY.format(id=machine.provider_id)
            return Heard(Act.APPROVE_EVENT, outcome=Outcome.REFUSED, error=why)
        if not provider.can.approve:
            why = CANNOT.format(provider=provider.name)
            return Heard(Act.APPROVE_EVENT, outcome=Outcome.REFUSED, error=why)
        return await heard(Act.APPROVE_EVENT, provider.approve(machine, event.external_id))


def event_seen(
    name: str, event: HostEvent | None, job: Job, now: datetime, *, repeatable: bool = False
) -> EventSeen:
    """The HostEvent `name` of a job's evidence as it is now. Pure."""
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
        repeatable=repeatable,
    )


def _about(event: HostEvent, job: Job) -> bool:
    """One that was found to be about another host since is none of ours."""
    told = event.spec.node
    same = told.uid in ("", job.spec.node_uid) or not job.spec.node_uid
    return told.name == job.spec.node_name and same
