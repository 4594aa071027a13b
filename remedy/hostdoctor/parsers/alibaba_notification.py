"""Parses an event notification of ECS from CloudMonitor or the message service. Pure.

Form: "Instance event notification", "Disk event notification" of the ECS documentation. `name` is
`<Instance|Disk>:<type>[:<status>]`; the instance's ID is in one of three places. EventBridge sends
the same as a CloudEvent: its type is the name after `ecs:`, its data the content.
"""

from datetime import datetime, timedelta

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from remedy.hostdoctor.parsers.alibaba import class_of, phase_of, reported
from remedy.hostdoctor.parsers.payload import (
    Fields,
    clean,
    decoded,
    fields,
    of_unknown_status,
    wrong,
)
from remedy.hostdoctor.report import ReportedEvents, ReportedHost

TRANSPORT = "alibaba_notification"
STATE_CHANGE = "StateChange"
ECS = "ecs:"
"""Prefix of the types of its CloudEvents."""
NOTICES = ("Completed", "Succeeded", "Success")
"""Suffixes of types that report an operation of the owner."""
PREEMPTION = timedelta(minutes=5)
"""Time between the notice and the release of a preemptible instance."""


def parse(payload: object, now: datetime) -> ReportedEvents:
    body = fields(decoded(payload))
    if body.has("specversion"):
        kind = body.needed("type")
        if not kind.startswith(ECS):
            return ReportedEvents((), ignored=(f"type {clean(kind, 80)!r}: no event of ECS",))
        body = _of_cloud_event(body, kind.removeprefix(ECS))
    if isinstance(body.values.get("content"), str):
        body = Fields({**body.values, "content": decoded(body.values["content"])}, body.at)
    subject, kind, status = _name(body)
    content = body.inside("content")
    kind = content.text("eventType") or kind
    if kind == STATE_CHANGE:
        return ReportedEvents((), ignored=(f"state of {_instance(body, content)}: nothing to do",))
    class_ = class_of(kind, disk=subject == "Disk")
    if class_ is HostEventClass.OTHER and kind.endswith(NOTICES):
        return ReportedEvents((), ignored=(f"news of what is done: {clean(kind, 80)!r}",))
    phase = _phase(content, class_, status)
    name = content.identity("eventId") if content.has("eventId") else body.identity("id")
    if phase is None:
        host, reported_status = (
            ReportedHost(instance=_instance(body, content)),
            content.text("eventStatus") or status,
        )
        beside = of_unknown_status(HostEventSource.ALIBABA_CLOUD, name, host, kind, reported_status)
        return ReportedEvents((beside,))
    event = reported(
        name,
        kind,
        class_,
        ReportedHost(instance=_instance(body, content)),
        phase,
        not_before=_due(body, content, class_),
        notes=content.notes(
            status="eventStatus", disk="diskId", device="device", action="action", code="reasonCode"
        ),
    )
    return ReportedEvents((event,))


def _of_cloud_event(body: Fields, name: str) -> Fields:
    given = body.values
    renamed = {
        "name": name,
        "resourceId": given.get("subject"),
        "eventTime": given.get("time"),
        "content": given.get("data"),
    }
    return Fields({**given, **renamed}, body.at)


def _name(body: Fields) -> tuple[str, str, str]:
    """Return subject, type and status; the status is "" if absent."""
    name = body.needed("name")
    parts = name.split(":")
    if parts[0] not in ("Instance", "Disk") or len(parts) not in (2, 3) or not parts[1]:
        raise wrong("name", name, "<Instance|Disk>:<type>[:<status>]")
    return parts[0], parts[1], parts[2] if len(parts) == 3 else ""


def _phase(content: Fields, class_: HostEventClass, named: str) -> HostEventPhase | None:
    """Return the phase; None for an unknown status. Without a status the event is active, except
    for a preemption, which is announced.
    """
    status = content.text("eventStatus") or named
    if not status:
        announced = class_ is HostEventClass.SPOT_INTERRUPTION
        phase = HostEventPhase.SCHEDULED if announced else HostEventPhase.ACTIVE
    elif (known := phase_of(status)) is not None:
        phase = known
    else:
        return None
    finished = content.instant("executeFinishTime") is not None
    return HostEventPhase.COMPLETED if finished and phase.open else phase


def _due(body: Fields, content: Fields, class_: HostEventClass) -> datetime | None:
    due, event_at = content.instant("notBefore"), body.instant("eventTime")
    if due is None and event_at is not None and class_ is HostEventClass.SPOT_INTERRUPTION:
        return event_at + PREEMPTION
    return due


def _instance(body: Fields, content: Fields) -> str:
    """Return the instance's ID: `instanceId` of instance events, `resourceId` of state changes,
    `ecsInstanceId` of disk events; else the end of the resource name.
    """
    for name in ("instanceId", "ecsInstanceId", "resourceId"):
        if content.has(name):
            return content.identity(name).rpartition("/")[2]
    named = body.identity("resourceId").rpartition("/")[2]
    if not named:
        raise wrong("resourceId", body.values.get("resourceId"), "the resource's name and ID")
    return named
