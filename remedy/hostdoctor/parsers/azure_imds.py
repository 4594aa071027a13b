"""Parses Azure's Scheduled Events, as a virtual machine reads them from its metadata service. Pure.

Form: "Scheduled Events for Linux VMs". The document lists the events of the whole scale set or
availability set for every caller: `Resources` names the machines. An event that is over disappears
from it, cancelled or not. Dates are RFC 1123 in the documentation and ISO 8601 elsewhere.
"""

from datetime import datetime

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.hostdoctor.parsers.payload import (
    LONGEST_MESSAGE,
    LONGEST_NOTE,
    Fields,
    clean,
    listed,
    meant,
    of_unknown_status,
    other,
    wrong,
)
from remedy.hostdoctor.report import Reported, ReportedEvents, ReportedHost

TRANSPORT = "azure_imds"
CLASSES = {
    "Freeze": HostEventClass.FREEZE,
    "Preempt": HostEventClass.SPOT_INTERRUPTION,
    "Reboot": HostEventClass.REBOOT,
    "Redeploy": HostEventClass.REDEPLOY,
    "Terminate": HostEventClass.RETIRE,
}
SEVERITIES = {
    HostEventClass.FREEZE: Severity.INFO,
    HostEventClass.HARDWARE_FAULT: Severity.CRITICAL,
    HostEventClass.RETIRE: Severity.CRITICAL,
    HostEventClass.SPOT_INTERRUPTION: Severity.CRITICAL,
}
FAILURE = "encountered a failure"
"""Part of the description of an act that Azure takes after a hardware failure, not as planned."""
RESOURCES = "resources"
"""Attribute: every machine of the event, since one approval applies to all of them."""


def parse(payload: object, now: datetime) -> ReportedEvents:
    return listed(TRANSPORT, payload, "Events", "the list of events", _event)


def _event(event: Fields) -> tuple[Reported, ...] | str:
    identity, kind = event.identity("EventId"), event.needed("EventType")
    if event.text("ResourceType") not in ("", "VirtualMachine"):
        return f"event of a {event.text('ResourceType', most=40)}, which is no machine"
    status, description = (
        event.needed("EventStatus"),
        event.text("Description", most=LONGEST_MESSAGE),
    )
    names = [_name(event, value) for value in event.items("Resources")]
    if not names:
        raise wrong(event.path("Resources"), [], "the names of its machines")
    phase, azure = meant(status), HostEventSource.AZURE
    if phase is None:
        return tuple(
            of_unknown_status(azure, identity, ReportedHost(instance=name), kind, status)
            for name in names
        )
    kind = next((known for known in CLASSES if known.lower() == kind.lower()), kind)
    due = event.instant("NotBefore")
    if kind not in CLASSES:
        return tuple(
            other(
                azure,
                identity,
                ReportedHost(instance=name),
                kind,
                phase=phase,
                not_before=due,
                message=description,
                silent=True,
            )
            for name in names
        )
    class_ = _class(kind, phase, description)
    return tuple(
        Reported(
            HostEventSource.AZURE,
            identity,
            class_,
            ReportedHost(instance=name),
            phase=phase,
            severity=SEVERITIES.get(class_, Severity.WARNING),
            not_before=due,
            attributes=_notes(event, names),
            message=description,
            silent=True,
        )
        for name in names
    )


def _class(kind: str, phase: HostEventPhase, description: str) -> HostEventClass:
    """Return the class. A reboot without announcement is the cloud's recovery of a failed host."""
    if kind == "Reboot" and phase is HostEventPhase.ACTIVE and FAILURE in description:
        return HostEventClass.HARDWARE_FAULT
    return CLASSES[kind]


def _name(event: Fields, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 256:
        raise wrong(event.path("Resources"), value, "names of 1 to 256 characters")
    return clean(value, 256)


def _notes(event: Fields, names: list[str]) -> dict[str, str]:
    """Return the attributes. A duration of -1 is unknown, not 0: no attribute then."""
    notes = event.notes(type="EventType", by="EventSource")
    seconds = event.number("DurationInSeconds")
    if seconds is not None and seconds >= 0:
        notes["durationSeconds"] = str(seconds)
    if len(names) > 1:
        notes[RESOURCES] = clean(",".join(names), LONGEST_NOTE)
    return notes
