"""Traps of Azure's health events in Event Grid."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kubenode.api.v1alpha1.hostevent import HostEventClass as C
from kubenode.api.v1alpha1.hostevent import HostEventSource as S
from remedy.hostdoctor.parsers import PARSERS
from remedy.hostdoctor.parsers.azure_event_grid import ANNOTATED, CHANGED, TYPES
from remedy.hostdoctor.report import ParseError, ReportedEvents, ReportedHost

NOW = datetime(2026, 1, 10, 10, 0, tzinfo=UTC)
VM = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/vm-1"


def event(kind: str = CHANGED, **properties: Any) -> dict[str, Any]:
    about = {"targetResourceId": VM, "occurredTime": "2026-01-10T09:58:00.1234567Z", **properties}
    return {
        "id": "1",
        "source": "/subscriptions/s",
        "subject": VM,
        "type": kind,
        "specversion": "1.0",
        "data": {"resourceInfo": {"id": f"{VM}/x", "properties": about}},
    }


def told(payload: Any, transport: str = "azure_event_grid") -> ReportedEvents:
    return PARSERS[transport](payload, NOW)


@pytest.mark.parametrize("transport", ["azure_event_grid", "cloudevents"])
def test_of_a_machine_that_is_away_for_no_known_reason_people_are_told(transport: str) -> None:
    found = told(event(availabilityState="Unavailable"), transport)
    (one,) = found.events
    assert (one.class_, one.source, one.host) == (C.OTHER, S.WEBHOOK, ReportedHost(instance=VM))
    assert found.complete


def test_one_that_is_available_again_ends_what_was_and_an_unknown_state_ends_nothing() -> None:
    again = told(event(availabilityState="Available"))
    away = told(event(availabilityState="Unavailable"))
    assert (again.events, again.complete, again.scope) == ((), True, away.scope)
    assert not told(event(availabilityState="Unknown")).complete


@pytest.mark.parametrize(
    ("context", "category", "class_"),
    [
        ("Platform Initiated", "Unplanned", C.HARDWARE_FAULT),
        ("Platform Initiated", "Planned", C.MAINTENANCE),
        ("Platform Initiated", "Not Applicable", C.OTHER),
        ("Nobody knows", "Unplanned", C.OTHER),
    ],
)
def test_an_annotation_says_who_did_it(context: str, category: str, class_: C) -> None:
    one = told(event(ANNOTATED, context=context, category=category, annotationName="X")).events[0]
    assert one.class_ is class_


def test_what_a_person_did_is_no_fault() -> None:
    found = told(event(ANNOTATED, context="Customer Initiated", category="Not Applicable"))
    assert (found.events, len(found.ignored)) == ((), 1)


def test_event_grids_own_schema_is_read_too() -> None:
    given = event(availabilityState="Degraded")
    given["eventType"] = given.pop("type")
    assert len(told([given]).events) == 1
    with pytest.raises(ParseError):
        told([given, given])


def test_what_is_no_health_of_a_machine_is_said() -> None:
    assert told({"type": "Microsoft.Storage.BlobCreated"}).ignored
    disk = event(availabilityState="Unavailable")
    disk["data"]["resourceInfo"]["properties"]["targetResourceId"] = "/subscriptions/s/disks/d"
    assert told(disk).ignored
    assert told(event(TYPES + "Levitated")).events[0].class_ is C.OTHER
