"""Parses ECS responses that list events: DescribeInstancesFullStatus, DescribeDisksFullStatus and
DescribeInstanceHistoryEvents, one page or all pages combined. Pure.

Form: ECS API reference. A list is complete if it has as many entries as `TotalCount` says.
"""

from collections.abc import Iterator
from datetime import datetime

from kubenode.api.v1alpha1.hostevent import HostEventPhase, HostEventSource
from remedy.hostdoctor.parsers.alibaba import class_of, phase_of, reported
from remedy.hostdoctor.parsers.payload import (
    Fields,
    decoded,
    fields,
    of_unknown_status,
    understood,
    wrong,
)
from remedy.hostdoctor.report import Reported, ReportedEvents, ReportedHost

INSTANCES = "alibaba_instances_full_status"
DISKS = "alibaba_disks_full_status"
HISTORY = "alibaba_instance_history"


def parse_instances(payload: object, now: datetime) -> ReportedEvents:
    body = fields(decoded(payload))
    entries = _list(body, "InstanceFullStatusSet", "InstanceFullStatusType")
    read = understood(list(_of(entries, "InstanceId", "ScheduledSystemEvent")), "", _instance_event)
    without = _without(entries, "ScheduledSystemEventSet")
    whole = read.whole and not without and _all(body, len(entries))
    return ReportedEvents(read.events, INSTANCES, complete=whole, ignored=(*read.ignored, *without))


def parse_disks(payload: object, now: datetime) -> ReportedEvents:
    body = fields(decoded(payload))
    entries = _list(body, "DiskFullStatusSet", "DiskFullStatusType")
    read = understood(list(_of(entries, "InstanceId", "DiskEvent", "DiskId")), "", _disk_event)
    without = _without(entries, "DiskEventSet")
    whole = read.whole and not without and _all(body, len(entries))
    return ReportedEvents(read.events, DISKS, complete=whole, ignored=(*read.ignored, *without))


def parse_history(payload: object, now: datetime) -> ReportedEvents:
    """Parse past events: they end open events and, unless open statuses were requested,
    begin none.
    """
    body = fields(decoded(payload))
    entries = _list(body, "InstanceSystemEventSet", "InstanceSystemEventType")
    read = understood(entries, "", _instance_event)
    return ReportedEvents(read.events, HISTORY, ignored=read.ignored)


def _list(body: Fields, outer: str, inner: str) -> list[Fields]:
    """Return a list that was converted from XML to JSON: an object that holds the list."""
    if outer not in body.values:
        raise wrong(outer, None, "the list, empty if there is nothing")
    return list(body.inside(outer).each(inner))


def _of(entries: list[Fields], *names: str) -> Iterator[Fields]:
    """Yield the events of each entry, with the entry's IDs."""
    owner, kind, *more = names
    for entry in entries:
        about = {name: entry.values.get(name) for name in (owner, *more)}
        for event in entry.inside(f"{kind}Set").each(f"{kind}Type"):
            yield Fields({**event.values, **about}, event.at)


def _without(entries: list[Fields], name: str) -> tuple[str, ...]:
    """Return a sentence if entries lack their set of events: such entries are unknown,
    not empty.
    """
    count = sum(name not in entry.values for entry in entries)
    return (f"{count} entries have no {name}: the list is not whole",) if count else ()


def _all(body: Fields, count: int) -> bool:
    total = body.number("TotalCount")
    return total is not None and count >= total


def _instance_event(event: Fields) -> tuple[Reported, ...] | str:
    kind = event.inside("EventType").needed("Name")
    class_ = class_of(kind, disk=False)
    status = event.inside("EventCycleStatus").needed("Name")
    phase = phase_of(status)
    if phase is None:
        name, host = event.identity("EventId"), ReportedHost(instance=event.identity("InstanceId"))
        return (of_unknown_status(HostEventSource.ALIBABA_CLOUD, name, host, kind, status),)
    finished = event.instant("EventFinishTime") is not None
    phase = HostEventPhase.COMPLETED if finished and phase.open else phase
    due = event.instant("NotBefore")
    return (
        reported(
            event.identity("EventId"),
            kind,
            class_,
            ReportedHost(instance=event.identity("InstanceId")),
            phase,
            not_before=due if phase.open else None,
            notes={"status": status},
            silent=True,
        ),
    )


def _disk_event(event: Fields) -> tuple[Reported, ...] | str:
    """Parse a disk event. The type's code is text here and a number for instances, and
    is not used.
    """
    kind = event.inside("EventType").needed("Name")
    class_ = class_of(kind, disk=True)
    event.instant("EventTime")
    if not event.has("InstanceId"):
        return "event of a disk that no instance has"
    finished = event.instant("EventEndTime") is not None
    return (
        reported(
            event.identity("EventId"),
            kind,
            class_,
            ReportedHost(instance=event.identity("InstanceId")),
            HostEventPhase.COMPLETED if finished else HostEventPhase.ACTIVE,
            notes=event.notes(disk="DiskId", device="Device"),
            silent=True,
        ),
    )
