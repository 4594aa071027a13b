"""Computes a HostEvent from its current state and a new report. Pure and repeatable.

    alerts    a delivery reports one firing of the alert: from `startsAt` on, or until `endsAt`.
              The latest start and the latest end ever reported decide: it fires if it started
              after it ended. So order and repetition of deliveries do not matter.
    messages  a phase only advances; what is over stays over
    lists     the list's content counts, backwards too; an event missing in a complete list is
              over. If several lists contain one event, the first determines its content, a phase
              only advances, and it is over when it is missing in all of them

The object is returned unchanged if the report holds nothing new: then nothing is written.
"""

from datetime import datetime, timedelta

import msgspec

from kubenode.api.v1alpha1.hostevent import (
    HostEvent,
    HostEventPhase,
)
from remedy.hostdoctor.conditions import (
    LACKING,
    REPORTED,
    ended,
)
from remedy.hostdoctor.nodes import Resolution
from remedy.hostdoctor.record import (
    fitted,
    is_alert,
    note,
    note_of,
)
from remedy.hostdoctor.report import Reported
from remedy.hostdoctor.written import annotated, first, refresh_report_time, written

LATE = timedelta(minutes=5)
"""A delivery about a firing that has ended may arrive this late. After that, the same start belongs
to an alert that Alertmanager ended for lack of data, and that still fires.
"""
ADVICE_LASTS = timedelta(hours=1)
_RANK = {
    HostEventPhase.AWAITING_APPROVAL: 0,
    HostEventPhase.SCHEDULED: 1,
    HostEventPhase.ACTIVE: 2,
}


def step(
    event: HostEvent | None,
    report: Reported,
    node: Resolution,
    now: datetime,
    *,
    scope: str = "",
    complete: bool = False,
) -> HostEvent:
    """Return the HostEvent after a report. `event` None: it is reported for the first time."""
    report = fitted(report)
    if event is None:
        return first(report, node, phase_of(report, now), now, scope)
    if is_alert(report):
        return _alert(event, report, node, now, scope)
    wanted = phase_of(report, now)
    have = event.status.phase
    alone = set(note_of(event).scopes) <= {scope}
    if have is not None and not _moves(
        event, report, have, wanted, scope, listed=complete and alone
    ):
        return _touch(event, report, wanted, now, scope)
    fresh = have is None or (not have.open and wanted.open)
    return written(event, report, node, wanted, now, scope, again=fresh)


def phase_of(report: Reported, now: datetime) -> HostEventPhase:
    """Return the phase that the report implies at `now`."""
    if report.phase is not None and not report.phase.open:
        return report.phase
    if report.not_after is not None and report.not_after <= now:
        return HostEventPhase.EXPIRED
    if report.phase is not None:
        return report.phase
    later = report.not_before is not None and report.not_before > now
    return HostEventPhase.SCHEDULED if later else HostEventPhase.ACTIVE


def lacking(event: HostEvent, now: datetime, scope: str = "") -> HostEvent:
    """Return the event after a complete list without it: the list of `scope`, "" for the only one
    that reported it.
    """
    phase, record = event.status.phase, note_of(event)
    if phase is None or not phase.open or not record.silent:
        return event
    remaining = tuple(each for each in record.scopes if scope and each != scope)
    if scope and len(remaining) == len(record.scopes):
        return event
    if remaining:
        return annotated(event, msgspec.structs.replace(record, scopes=remaining))
    starts = event.spec.not_before
    has_begun = phase is HostEventPhase.ACTIVE or starts is None or starts <= now
    end = HostEventPhase.COMPLETED if has_begun else HostEventPhase.CANCELLED
    return ended(event, end, LACKING, "its source lists it no more", now)


# -- alerts --------------------------------------------------------------------------------------


def _alert(
    event: HostEvent, report: Reported, node: Resolution, now: datetime, scope: str
) -> HostEvent:
    """Return the alert after a report: spec.notBefore is the latest reported start, spec.notAfter
    the latest end.
    """
    start, end = event.spec.not_before, event.spec.not_after
    # An alert without a start continues, if it fires already.
    starts = report.not_before or (start if start is not None and end is None else now)
    ends = report.not_after
    if report.phase is HostEventPhase.COMPLETED:
        ends = ends or end or now  # without an end it has ended by now
        if (start is not None and ends < start) or (end is not None and ends <= end):
            return _finished(event, now)
        latest = max((t for t in (start, report.not_before) if t is not None), default=None)
        return written(event, report, node, HostEventPhase.COMPLETED, now, scope, start=latest)
    latest = starts if start is None else max(start, starts)
    if end is not None and starts <= end and not _resumed(event, now):
        return _finished(event, now)
    phase = event.status.phase
    if end is None and phase is not None and phase.open:
        # A later start of a firing alert: it ended meanwhile without a report.
        again = latest != start
        return written(
            event, report, node, HostEventPhase.ACTIVE, now, scope, again=again, start=latest
        )
    return written(event, report, node, HostEventPhase.ACTIVE, now, scope, again=True, start=latest)


def _resumed(event: HostEvent, now: datetime) -> bool:
    phase, reported_at = event.status.phase, event.status.last_seen
    return (
        phase is not None
        and not phase.open
        and reported_at is not None
        and now - reported_at > LATE
    )


def _finished(event: HostEvent, now: datetime) -> HostEvent:
    """Return the event for an outdated report; complete the end if a crash came between the two
    writes of a newer one.
    """
    phase = event.status.phase
    if event.spec.not_after is not None and (phase is None or phase.open):
        return ended(event, HostEventPhase.COMPLETED, REPORTED, "its source says so", now)
    return event


# -- everything else -----------------------------------------------------------------------------


def _moves(
    event: HostEvent,
    report: Reported,
    have: HostEventPhase,
    wanted: HostEventPhase,
    scope: str,
    *,
    listed: bool,
) -> bool:
    """Report whether the report changes the event: it is not older than the current state."""
    if not have.open:
        if not wanted.open:
            return False
        if have is HostEventPhase.EXPIRED:
            # `wanted` is open: its end has moved. A report without an end proves nothing.
            confirmed = report.not_after is not None or (listed and report.phase is not None)
            return confirmed and not report.advisory
        return listed
    if not wanted.open or listed or _RANK[wanted] >= _RANK[have]:
        return True
    if report.class_ is not event.spec.class_ and scope in (note_of(event).scope, ""):
        return True  # its source reuses the ID for another event
    before = event.spec.not_before
    return report.not_before is not None and before is not None and report.not_before > before


def _touch(
    event: HostEvent, report: Reported, wanted: HostEventPhase, now: datetime, scope: str
) -> HostEvent:
    """Return the event with only its further scopes and `lastSeen` updated."""
    have = event.status.phase
    if have is not None and have.open:
        event = annotated(event, note(report, scope, note_of(event)))
    elif wanted.open and have is not HostEventPhase.EXPIRED:
        return event
    return refresh_report_time(event, now)
