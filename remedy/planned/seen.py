"""What is seen of a planned event: the HostEvent that a job was made for, as it is now. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource

C = HostEventClass
COMES = frozenset({C.REBOOT, C.STOP, C.RETIRE, C.REDEPLOY, C.MAINTENANCE, C.SPOT_INTERRUPTION})
"""The cloud takes the host away for a while, or for good, whatever we do."""
PLANNED = COMES | {C.FREEZE, C.REBALANCE, C.BILLING}
"""Announced, not a fault of the host that is there now."""
CLOUDS = frozenset(
    {
        HostEventSource.ALIBABA_CLOUD,
        HostEventSource.AWS,
        HostEventSource.AZURE,
        HostEventSource.GCP,
    }
)
BEFORE = (HostEventPhase.SCHEDULED, HostEventPhase.AWAITING_APPROVAL)


@dataclass(frozen=True, slots=True)
class EventSeen:
    """One HostEvent of a job's evidence.

    phase       None: its object is gone, or about another host by now
    due         when it begins, or began; None: nobody has said
    repeatable  whether telling its provider twice that it may start does no harm
    inside      whether its cloud takes that word from inside of the machine alone
    shared      why it must not start although this node is empty: it is of other machines too
    by_agent    nobody but the host's own agent tells of it
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
        """It comes whether or not the node is empty then, by the cloud's own word: somebody else's
        must not open every limit, and a fault of agents would be one of all hosts at once. One
        that waits for an answer does not come by itself.
        """
        started = self.phase in (HostEventPhase.SCHEDULED, HostEventPhase.ACTIVE)
        by_cloud = self.source in CLOUDS and not self.by_agent
        return started and self.class_ in COMES and by_cloud


class Ending(StrEnum):
    """How the events of a job stand together."""

    OPEN = "Open"
    COMPLETED = "Completed"
    CANCELLED = "Cancelled"


def ending(events: Sequence[EventSeen]) -> Ending:
    """One that is gone, or past its time, is over. None at all: nothing is known to be over."""
    if not events or any(event.open for event in events):
        return Ending.OPEN
    phases = {event.phase for event in events}
    if HostEventPhase.CANCELLED in phases and HostEventPhase.COMPLETED not in phases:
        return Ending.CANCELLED
    return Ending.COMPLETED


@dataclass(frozen=True, slots=True)
class Evacuation:
    """What Kube Defender is told of a node that is emptied for a planned event."""

    deadline: datetime | None
    inevitable: bool


def evacuation(events: Sequence[EventSeen]) -> Evacuation | None:
    """By the events as they are now: one may have been put off. None: no planned one is open."""
    planned = [event for event in events if event.open and event.planned]
    if not planned:
        return None
    due = min((event.due for event in planned if event.due is not None), default=None)
    return Evacuation(due, any(event.inevitable for event in planned))


def due_at(
    phase: HostEventPhase | None, not_before: datetime | None, first_seen: datetime | None
) -> datetime | None:
    """When an event begins. One that runs and never said when began when it was first seen."""
    if not_before is not None or phase is not HostEventPhase.ACTIVE:
        return not_before
    return first_seen
