"""Parses maintenance and preemption of Compute Engine, from the metadata server or the API. Pure.

Forms: "Monitor and plan for a host maintenance event", "About live migration", "Preemptible VM
instances" of the Google Cloud documentation, and `instances` of the Compute Engine API. The
metadata server uses snake_case, the API camelCase. Nothing has an ID: an instance has at most one
maintenance and one preemption at a time.
"""

import re
from datetime import datetime

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.hostdoctor.parsers.payload import (
    UNKNOWN_STATUS,
    Fields,
    clean,
    decoded,
    fields,
    listed,
    meant,
    of_unknown_status,
    other,
    wrong,
)
from remedy.hostdoctor.report import ParseError, Reported, ReportedEvents, ReportedHost

UPCOMING = "gcp_upcoming_maintenance"
MAINTENANCE = "gcp_maintenance_event"
PREEMPTED = "gcp_preempted"
INSTANCES = "gcp_instances"
UPCOMING_ID = "upcoming-maintenance"
TEXTS = {
    "MIGRATE_ON_HOST_MAINTENANCE": (
        HostEventClass.FREEZE,
        Severity.INFO,
        "the instance is moved to another host while it runs: it stands still for seconds",
    ),
    "TERMINATE_ON_HOST_MAINTENANCE": (
        HostEventClass.STOP,
        Severity.CRITICAL,
        "the instance is stopped for maintenance of its host, a minute from the notice on",
    ),
}
_KIND = re.compile(r"[A-Z]+(?:_[A-Z]+)+")
"""Form in which the server writes a kind of maintenance."""
_LINK = re.compile(r"projects/([^/]+)/zones/([^/]+)/instances/([^/]+)$")


def parse_upcoming(payload: object, now: datetime) -> ReportedEvents:
    """Parse upcoming maintenance. `{}`, and the server's 404 as an empty body, mean that there is
    none.
    """
    if payload in (None, "", b""):
        return ReportedEvents((), UPCOMING, complete=True)
    events = _upcoming(fields(decoded(payload)), ReportedHost())
    known = all(UNKNOWN_STATUS not in event.attributes for event in events)
    return ReportedEvents(events, UPCOMING, complete=known)


def parse_instances(payload: object, now: datetime) -> ReportedEvents:
    """Parse `items`: instances of the API, all pages combined; `selfLink` names each."""
    instances = "the list of instances"
    return listed(INSTANCES, payload, "items", instances, _instance, more="nextPageToken")


def _instance(instance: Fields) -> tuple[Reported, ...]:
    maintenance = instance.inside("resourceStatus").inside("upcomingMaintenance")
    if not maintenance.values:
        return ()
    link = _LINK.search(instance.needed("selfLink"))
    if link is None:
        raise wrong(instance.path("selfLink"), instance.text("selfLink"), "an instance's link")
    return _upcoming(maintenance, ReportedHost(provider_id="gce://" + "/".join(link.groups())))


def _upcoming(body: Fields, host: ReportedHost) -> tuple[Reported, ...]:
    if not body.values:
        return ()
    body = Fields({_snake(name): value for name, value in body.values.items()}, body.at)
    status = body.needed("maintenance_status")
    phase = meant(status)
    if phase is None:
        what = "maintenance of the host"
        return (of_unknown_status(HostEventSource.GCP, UPCOMING_ID, host, what, status),)
    return (
        Reported(
            HostEventSource.GCP,
            UPCOMING_ID,
            HostEventClass.MAINTENANCE,
            host,
            phase=phase,
            not_before=body.instant("window_start_time"),
            attributes=_notes(body),
            message=f"Compute Engine will maintain the host: {body.text('type', most=40)}",
            silent=True,
        ),
    )


def _notes(body: Fields) -> dict[str, str]:
    """Return the attributes. `can_reschedule` occurs as text and as a boolean."""
    notes = body.notes(
        type="type",
        latest="latest_window_start_time",
        until="window_end_time",
    )
    can = body.values.get("can_reschedule")
    if isinstance(can, bool | str) and str(can):
        notes["canReschedule"] = clean(str(can).lower(), 8)
    reasons = [
        clean(reason, 64) for reason in body.items("maintenance_reasons") if isinstance(reason, str)
    ]
    if reasons:
        notes["reasons"] = ",".join(reasons[:8])
    return notes


def parse_maintenance(payload: object, now: datetime) -> ReportedEvents:
    """Parse plain text, which changes a minute before the event (an hour for some
    machine types).
    """
    text = _plain(payload)
    if text in ("NONE", ""):
        return ReportedEvents((), MAINTENANCE, complete=True)
    if text not in TEXTS:
        if _KIND.fullmatch(text) is None:
            raise wrong("the text", text, f"NONE, {' or '.join(TEXTS)}")
        unknown = other(
            HostEventSource.GCP,
            "maintenance-event/other",
            ReportedHost(),
            text,
            phase=HostEventPhase.ACTIVE,
            silent=True,
        )
        return ReportedEvents((unknown,), MAINTENANCE, complete=False)
    class_, severity, description = TEXTS[text]
    phase = HostEventPhase.ACTIVE if class_ is HostEventClass.FREEZE else HostEventPhase.SCHEDULED
    event = Reported(
        HostEventSource.GCP,
        "maintenance-event",
        class_,
        ReportedHost(),
        phase=phase,
        severity=severity,
        attributes={"text": text},
        message=description,
        silent=True,
    )
    return ReportedEvents((event,), MAINTENANCE, complete=True)


def parse_preempted(payload: object, now: datetime) -> ReportedEvents:
    """Parse plain text: `TRUE` from the notice on, 30 s before the end."""
    text = _plain(payload).upper()
    if text in ("FALSE", ""):
        return ReportedEvents((), PREEMPTED, complete=True)
    if text != "TRUE":
        raise wrong("the text", text, "TRUE or FALSE")
    event = Reported(
        HostEventSource.GCP,
        "preempted",
        HostEventClass.SPOT_INTERRUPTION,
        ReportedHost(),
        phase=HostEventPhase.ACTIVE,
        severity=Severity.CRITICAL,
        message="Compute Engine takes back the spot instance within 30 s",
        silent=True,
    )
    return ReportedEvents((event,), PREEMPTED, complete=True)


def _plain(payload: object) -> str:
    if isinstance(payload, bytes | bytearray):
        payload = payload.decode("utf-8", "replace")
    if isinstance(payload, bool) or payload is None:
        payload = str(payload).upper() if payload is not None else ""
    if not isinstance(payload, str) or len(payload) > 4096:
        raise ParseError(f"the body is a {type(payload).__name__}: send the server's plain text")
    return clean(payload, 256)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda match: f"_{match[0]}", str(name)).lower()
