"""What of a cloud's whole account is about this cluster.

An account holds machines of others: their events would be kept as unresolved, and be most of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from remedy.hostdoctor.desk import HostEventService
from remedy.hostdoctor.nodes import ResolutionReason
from remedy.hostdoctor.record import fitted, name_of
from remedy.hostdoctor.reported import Reported, ReportedEvents

NOT_OURS = (ResolutionReason.NO_HOST, ResolutionReason.NOT_FOUND)
Ours = Callable[[Reported], bool]


@dataclass(frozen=True, slots=True)
class Concerning:
    told: ReportedEvents
    foreign: int


def concerning(told: ReportedEvents, ours: Ours) -> Concerning:
    kept = tuple(event for event in told.events if ours(event))
    return Concerning(replace(told, events=kept), len(told.events) - len(kept))


def about_us(desk: HostEventService) -> Ours:
    """Of a node of ours, and not the end of what we never heard of: a history tells of days."""

    def ours(event: Reported) -> bool:
        if event.phase is not None and not event.phase.open:
            return desk.writer.known(name_of(fitted(event))) is not None
        return desk.index.resolve(event.host).why not in NOT_OURS

    return ours
