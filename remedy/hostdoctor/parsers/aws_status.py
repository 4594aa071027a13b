"""Parses EC2's DescribeInstanceStatus, all pages combined. Pure.

Form: "DescribeInstanceStatus" of the EC2 API reference, as the SDK decodes it. Its events have no
state: the description of an event that is over says so at its start for a week, then the event
disappears.
"""

from collections.abc import Iterator
from datetime import datetime

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.hostdoctor.parsers.aws_imds import scheduled
from remedy.hostdoctor.parsers.payload import Fields, decoded, fields, understood
from remedy.hostdoctor.report import Reported, ReportedEvents, ReportedHost

TRANSPORT = "aws_instance_status"
IMPAIRED = "system-status-impaired"


def parse(payload: object, now: datetime) -> ReportedEvents:
    """Parse the response, which is complete unless it has a NextToken."""
    body = fields(decoded(payload))
    read = understood(list(_parts(body)), "", _part)
    complete = read.whole and not body.has("NextToken")
    return ReportedEvents(read.events, TRANSPORT, complete=complete, ignored=read.ignored)


def _parts(body: Fields) -> Iterator[Fields]:
    """Yield every event with the instance it belongs to, and every instance for its own status."""
    for instance in body.each("InstanceStatuses"):
        yield instance
        name = instance.values.get("InstanceId")
        for event in instance.each("Events"):
            yield Fields({**event.values, "InstanceId": name}, event.at)


def _part(part: Fields) -> tuple[Reported, ...] | str:
    host = ReportedHost(instance=part.identity("InstanceId"))
    return scheduled(part, host, "InstanceEventId") if part.has("Code") else _status(part, host)


def _status(instance: Fields, host: ReportedHost) -> tuple[Reported, ...]:
    """Parse EC2's own check of the host; the kubelet reports about the guest."""
    status = instance.inside("SystemStatus")
    if status.text("Status") != "impaired":
        return ()
    since = [at for check in status.each("Details") if (at := check.instant("ImpairedSince"))]
    return (
        Reported(
            HostEventSource.AWS,
            IMPAIRED,
            HostEventClass.HARDWARE_FAULT,
            host,
            phase=HostEventPhase.ACTIVE,
            severity=Severity.CRITICAL,
            not_before=min(since, default=None),
            attributes={"check": "system"},
            message="EC2's system status check fails: the host below the instance is at fault",
            silent=True,
        ),
    )
