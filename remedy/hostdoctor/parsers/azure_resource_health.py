"""Parses the availability of virtual machines from Azure Resource Health, all pages combined. Pure.

Form: "Availability Statuses - List By Subscription Id". An available machine is listed too, which
ends any earlier event.
"""

from datetime import datetime

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.hostdoctor.parsers.payload import (
    LONGEST_MESSAGE,
    Fields,
    listed,
    of_unknown_status,
)
from remedy.hostdoctor.report import Reported, ReportedEvents, ReportedHost

TRANSPORT = "azure_resource_health"
SUFFIX = "/providers/microsoft.resourcehealth/availabilitystatuses/"
MACHINES = "/virtualmachines/"
SOUND = ("Available", "Unknown")
"""Unknown means a lack of data: no fault by itself."""
STATES = {"Unavailable": Severity.CRITICAL, "Degraded": Severity.WARNING}


def parse(payload: object, now: datetime) -> ReportedEvents:
    statuses = "the list of availability statuses"
    return listed(TRANSPORT, payload, "value", statuses, _status, more="nextLink")


def _status(status: Fields) -> tuple[Reported, ...] | str:
    machine, about = _machine(status.identity("id")), status.inside("properties")
    state = about.needed("availabilityState")
    if not machine:
        return "health of what is no virtual machine"
    if state in SOUND:
        return ()
    if state not in STATES:
        host = ReportedHost(instance=machine)
        return (
            of_unknown_status(
                HostEventSource.AZURE, "resource-health", host, "availability", state
            ),
        )
    reason = about.text("reasonType")
    if reason.replace(" ", "").lower() in ("userinitiated", "customerinitiated"):
        return "a person stopped the machine"
    return (_reported(about, machine, state, planned=reason.lower() == "planned"),)


def _reported(about: Fields, machine: str, state: str, *, planned: bool) -> Reported:
    since = about.instant("occurredTime") or about.instant("occuredTime")
    what = about.text("healthEventId", most=128) or (since.isoformat() if since else state)
    return Reported(
        HostEventSource.AZURE,
        f"resource-health/{what}",
        HostEventClass.MAINTENANCE if planned else HostEventClass.HARDWARE_FAULT,
        ReportedHost(instance=machine),
        phase=HostEventPhase.ACTIVE,
        severity=STATES[state],
        not_before=since,
        attributes=about.notes(
            state="availabilityState",
            reason="reasonType",
            lasts="reasonChronicity",
            cause="healthEventCause",
        ),
        message=about.text("summary", most=LONGEST_MESSAGE) or about.text("detailedStatus"),
        silent=True,
    )


def _machine(identity: str) -> str:
    """Return the machine's own resource ID; "" for another resource."""
    head, separator, _ = _split(identity, SUFFIX)
    return head if separator and MACHINES in head.lower() else ""


def _split(text: str, at: str) -> tuple[str, str, str]:
    where = text.lower().rfind(at)
    return (text, "", "") if where < 0 else (text[:where], at, text[where + len(at) :])
