"""Parses the health of virtual machines from Azure's Event Grid, directly or forwarded from a
Service Bus queue. Pure.

Form: "Azure Resource Notifications - Health Resources events", in the schemas of CloudEvents and of
Event Grid. A message holds the current state of one machine: it is the complete list of that
machine.

    AvailabilityStatusChanged   has no reason, and a machine that its owner stopped is unavailable
                                too: people are notified
    ResourceAnnotated           says who acted and whether it was planned, and is never withdrawn:
                                it ends after an hour

It comes from a webhook, whose events never open Kube Defender's limits: its source is Webhook.
"""

from collections.abc import Sequence
from datetime import datetime

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.hostdoctor.parsers.payload import (
    LONGEST_MESSAGE,
    Fields,
    clean,
    decoded,
    fields,
    items,
    wrong,
)
from remedy.hostdoctor.report import Reported, ReportedEvents, ReportedHost

TRANSPORT = "azure_event_grid"
TYPES = "Microsoft.ResourceNotifications.HealthResources."
CHANGED, ANNOTATED = TYPES + "AvailabilityStatusChanged", TYPES + "ResourceAnnotated"
MACHINES = "/virtualmachines/"
SOUND = ("available", "unknown")
"""Unknown means a lack of data: neither a fault by itself, nor the end of one."""
SEVERITIES = {"unavailable": Severity.CRITICAL}


def parse(payload: object, now: datetime) -> ReportedEvents:
    """Parse one event, or a list with one: Event Grid batches only if configured to."""
    body = decoded(payload)
    if isinstance(body, Sequence) and not isinstance(body, str | bytes):
        entries = items(body, "the body")
        if len(entries) != 1:
            raise wrong("the body", f"a list of {len(entries)}", "one event (maxEventsPerBatch: 1)")
        body = entries[0]
    event = fields(body)
    kind = event.text("type") or event.needed("eventType")
    if not kind.startswith(TYPES):
        return ReportedEvents(
            (), ignored=(f"Event Grid's event of no concern: {clean(kind, 120)!r}",)
        )
    about = event.inside("data").inside("resourceInfo").inside("properties")
    machine = about.text("targetResourceId", most=512) or event.needed("subject")
    if MACHINES not in machine.lower():
        return ReportedEvents((), ignored=("health of what is no virtual machine",))
    if kind == CHANGED:
        return _changed(about, machine)
    if kind == ANNOTATED:
        return _annotated(about, machine)
    events = (_event(about, machine, HostEventClass.OTHER, kind.removeprefix(TYPES)),)
    return ReportedEvents(events, _scope(machine))


def _changed(about: Fields, machine: str) -> ReportedEvents:
    state = about.needed("availabilityState")
    if state.lower() in SOUND:
        return ReportedEvents((), _scope(machine), complete=state.lower() == SOUND[0])
    event = _event(about, machine, HostEventClass.OTHER, f"the machine is {state}")
    return ReportedEvents((event,), _scope(machine), complete=True)


def _annotated(about: Fields, machine: str) -> ReportedEvents:
    """Parse an annotation: the platform acted, or the machine's owner, whose own act
    needs nothing.
    """
    context = _letters(about.text("context"))
    if context in ("customerinitiated", "userinitiated"):
        return ReportedEvents((), ignored=("a person acted on the machine",))
    category = _letters(about.text("category"))
    class_ = {
        "planned": HostEventClass.MAINTENANCE,
        "unplanned": HostEventClass.HARDWARE_FAULT,
    }.get(category if context == "platforminitiated" else "", HostEventClass.OTHER)
    report = _event(about, machine, class_, about.text("annotationName"), advisory=True)
    return ReportedEvents((report,), _scope(machine))


def _event(
    about: Fields, machine: str, class_: HostEventClass, what: str, *, advisory: bool = False
) -> Reported:
    state = about.text("availabilityState").lower()
    fault = class_ is HostEventClass.HARDWARE_FAULT
    return Reported(
        HostEventSource.WEBHOOK,
        TRANSPORT,
        class_,
        ReportedHost(instance=machine),
        phase=HostEventPhase.ACTIVE,
        severity=Severity.CRITICAL if fault else SEVERITIES.get(state, Severity.WARNING),
        not_before=about.instant("occurredTime"),
        attributes=about.notes(
            state="availabilityState",
            annotation="annotationName",
            context="context",
            category="category",
        ),
        message=about.text("summary", most=LONGEST_MESSAGE) or what,
        silent=True,
        advisory=advisory,
    )


def _scope(machine: str) -> str:
    return f"{TRANSPORT}:{machine.lower()}"


def _letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalpha())
