"""Selects the events about this cluster from those of a whole cloud account.

An account also holds other machines: their events would be stored as unresolved, and be the
majority.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from remedy.hostdoctor.desk import HostEventService
from remedy.hostdoctor.nodes import ResolutionReason
from remedy.hostdoctor.record import fitted, name_of
from remedy.hostdoctor.report import Reported, ReportedEvents

NOT_OURS = (ResolutionReason.NO_HOST, ResolutionReason.NO_NODE)
Ours = Callable[[Reported], bool]


@dataclass(frozen=True, slots=True)
class Concerning:
    reports: ReportedEvents
    foreign: int


def concerning(reports: ReportedEvents, ours: Ours) -> Concerning:
    selected = tuple(event for event in reports.events if ours(event))
    return Concerning(replace(reports, events=selected), len(reports.events) - len(selected))


def about_us(desk: HostEventService) -> Ours:
    """Return a predicate for events of our nodes. The end of an unknown event does not count: a
    history reaches back for days.
    """

    def ours(event: Reported) -> bool:
        if event.phase is not None and not event.phase.open:
            return desk.writer.known(name_of(fitted(event))) is not None
        return desk.index.resolve(event.host).why not in NOT_OURS

    return ours
