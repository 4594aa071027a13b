"""Parses what an EC2 instance reads about itself from its metadata service. Pure.

Paths and forms: "Retrieve instance metadata" of the EC2 user guide: events/maintenance/scheduled,
spot/instance-action, events/recommendations/rebalance. None names the instance: it is the one that
was queried (`ReportedHost()`).
"""

import re
from datetime import datetime, timedelta

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.hostdoctor.parsers.payload import (
    LONGEST_MESSAGE,
    Fields,
    decoded,
    fields,
    items,
    meant,
    of_unknown_status,
    other,
    understood,
)
from remedy.hostdoctor.report import Reported, ReportedEvents, ReportedHost

SCHEDULED = "aws_imds_scheduled"
SPOT = "aws_imds_spot"
REBALANCE = "aws_imds_rebalance"
CLASSES = {
    "instance-reboot": HostEventClass.REBOOT,
    "system-reboot": HostEventClass.REBOOT,
    "system-maintenance": HostEventClass.MAINTENANCE,
    "instance-retirement": HostEventClass.RETIRE,
    "instance-stop": HostEventClass.STOP,
}
_ENDING = re.compile(r"\s*\[([A-Za-z -]{4,24})\]")
"""Start of the description of an event that is over; the only sign where events have no state."""
INTERRUPTION = "spot-interruption"
"""External ID: an instance has one interruption at a time, which the metadata service and
EventBridge both report.
"""
REBALANCING = "rebalance-recommendation"
SPOT_ENDS = timedelta(minutes=30)
"""An interruption is over this long after its time: a stopped or hibernated instance may return."""


def parse_scheduled(payload: object, now: datetime) -> ReportedEvents:
    """Parse `active` events: the list is complete, so events that it lacks are over."""
    entries = items(decoded(payload), "the body")
    read = understood(entries, "", lambda event: scheduled(event, ReportedHost(), "EventId"))
    return ReportedEvents(read.events, SCHEDULED, complete=read.whole, ignored=read.ignored)


def scheduled(event: Fields, host: ReportedHost, identity: str) -> tuple[Reported, ...] | str:
    """Parse one scheduled event. The metadata service and DescribeInstanceStatus differ in the name
    of its ID and in `State`, which the latter lacks.
    """
    code, description = event.needed("Code"), event.text("Description", most=LONGEST_MESSAGE)
    name = event.identity(identity)
    phase, status = _phase(event, description)
    if status:
        return (of_unknown_status(HostEventSource.AWS, name, host, code, status),)
    class_ = CLASSES.get(code.lower().replace("_", "-"))
    if class_ is None:
        at = event.instant("NotBefore")
        return (
            other(
                HostEventSource.AWS,
                name,
                host,
                code,
                phase=phase,
                not_before=at,
                message=description,
                silent=True,
            ),
        )
    return (
        Reported(
            HostEventSource.AWS,
            name,
            class_,
            host,
            phase=phase,
            severity=Severity.CRITICAL if class_ is HostEventClass.RETIRE else Severity.WARNING,
            not_before=event.instant("NotBefore"),
            not_after=event.instant("NotAfter"),
            attributes=event.notes(code="Code", deadline="NotBeforeDeadline"),
            message=description,
            silent=True,
        ),
    )


def _phase(event: Fields, description: str) -> tuple[HostEventPhase | None, str]:
    """Return the phase, None for an open one, whose time decides; and a state if it is unknown."""
    if match := _ENDING.match(description):
        end_phase = meant(match[1])
        if end_phase is not None and not end_phase.open:
            return end_phase, ""
    state = event.text("State") or "active"
    phase = meant(state)
    if phase is None:
        return None, state
    return (None if phase.open else phase), ""


def parse_spot(payload: object, now: datetime) -> ReportedEvents:
    """Parse the spot notice. No body, or an empty one, is the service's 404: no interruption."""
    if payload in (None, "", b""):
        return ReportedEvents((), SPOT, complete=True)
    body = fields(decoded(payload))
    if not body.values:
        return ReportedEvents((), SPOT, complete=True)
    action, at = body.needed("action"), body.instant("time")
    return ReportedEvents((interruption(ReportedHost(), action, at, at),), SPOT, complete=True)


def interruption(
    host: ReportedHost, action: str, due: datetime | None, noticed_at: datetime | None
) -> Reported:
    """Return an interruption. `action` is terminate, stop or hibernate: each ends what runs on the
    instance.
    """
    return Reported(
        HostEventSource.AWS,
        INTERRUPTION,
        HostEventClass.SPOT_INTERRUPTION,
        host,
        phase=None if due is not None else HostEventPhase.ACTIVE,
        severity=Severity.CRITICAL,
        not_before=due,
        not_after=noticed_at + SPOT_ENDS if noticed_at is not None else None,
        attributes={"action": action},
        message=f"EC2 takes back the spot instance: {action}",
        silent=True,
    )


def parse_rebalance(payload: object, now: datetime) -> ReportedEvents:
    if payload in (None, "", b""):
        return ReportedEvents((), REBALANCE, complete=True)
    body = fields(decoded(payload))
    if not body.values:
        return ReportedEvents((), REBALANCE, complete=True)
    body.instant("noticeTime")
    return ReportedEvents(
        (rebalance(ReportedHost(), body.needed("noticeTime")),), REBALANCE, complete=True
    )


def rebalance(host: ReportedHost, noticed: str) -> Reported:
    return Reported(
        HostEventSource.AWS,
        REBALANCING,
        HostEventClass.REBALANCE,
        host,
        phase=HostEventPhase.ACTIVE,
        severity=Severity.INFO,
        attributes={"noticeTime": noticed},
        message="EC2 sees a raised risk that the spot instance will be interrupted",
        silent=True,
        advisory=True,
    )
