"""Observations of a planned event: the HostEvent that a job was made for, in its current state.
Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource

C = HostEventClass
COMES = frozenset({C.REBOOT, C.STOP, C.RETIRE, C.REDEPLOY, C.MAINTENANCE, C.SPOT_INTERRUPTION})
"""Classes of events in which the cloud takes the host away, for a while or for good, whatever we
do.
"""
PLANNED = COMES | {C.FREEZE, C.REBALANCE, C.BILLING}
"""Classes of announced events, which are no fault of the host as it is now."""
CLOUDS = frozenset(
    {
        HostEventSource.ALIBABA_CLOUD,
        HostEventSource.AWS,
        HostEventSource.AZURE,
        HostEventSource.GCP,
    }
)
BEFORE = (HostEventPhase.SCHEDULED, HostEventPhase.AWAITING_APPROVAL)
"""Phases of events that have not begun."""


@dataclass(frozen=True, slots=True)
class EventObservation:
    """One HostEvent of a job's evidence.

    phase: None: its object is gone, or it is about another host now
    due: when it begins, or began; None: unknown
    repeatable: whether telling its provider twice that it may start does no harm
    inside: whether its cloud accepts the approval only from inside the machine
    shared: why it must not start although this node is empty: it also affects other machines
    by_agent: only the host's own agent reports it
    """

    name: str
    phase: HostEventPhase | None = None
    class_: HostEventClass | None = None
    source: HostEventSource | None = None
    external_id: str = ""
    due: datetime | None = None
    repeatable: bool = False
    inside: bool = False
    shared: str = ""
    by_agent: bool = False

    @property
    def open(self) -> bool:
        return self.phase is not None and self.phase.open

    @property
    def planned(self) -> bool:
        return self.class_ in PLANNED

    @property
    def inevitable(self) -> bool:
        """Whether the cloud itself says that the event comes whether or not the node is empty.
        Other sources do not count, since their events must not open every limit, and a fault of
        agents would concern all hosts at once. An event that waits for approval does not come by
        itself.
        """
        started = self.phase in (HostEventPhase.SCHEDULED, HostEventPhase.ACTIVE)
        by_cloud = self.source in CLOUDS and not self.by_agent
        return started and self.class_ in COMES and by_cloud


class Ending(StrEnum):
    """Combined state of the events of a job."""

    OPEN = "Open"
    COMPLETED = "Completed"
    CANCELLED = "Cancelled"


def ending(events: Sequence[EventObservation]) -> Ending:
    """Return the combined state. An event that is gone or past its time is over; without events
    nothing is known to be over.
    """
    if not events or any(event.open for event in events):
        return Ending.OPEN
    phases = {event.phase for event in events}
    if HostEventPhase.CANCELLED in phases and HostEventPhase.COMPLETED not in phases:
        return Ending.CANCELLED
    return Ending.COMPLETED


@dataclass(frozen=True, slots=True)
class Evacuation:
    """What Kube Defender needs to know about a drain for a planned event."""

    deadline: datetime | None
    inevitable: bool


def evacuation(events: Sequence[EventObservation]) -> Evacuation | None:
    """Return the evacuation for the events' current state; None: no planned event is open."""
    planned = [event for event in events if event.open and event.planned]
    if not planned:
        return None
    due = min((event.due for event in planned if event.due is not None), default=None)
    return Evacuation(due, any(event.inevitable for event in planned))


def due_at(
    phase: HostEventPhase | None, not_before: datetime | None, first_observed: datetime | None
) -> datetime | None:
    """Return when an event begins. An active event without a start time began when it was first
    seen.
    """
    if not_before is not None or phase is not HostEventPhase.ACTIVE:
        return not_before
    return first_observed
