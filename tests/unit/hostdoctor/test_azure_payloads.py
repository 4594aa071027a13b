"""Traps of Azure's Scheduled Events and Resource Health."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kubenode.api.v1alpha1.hostevent import HostEventClass as C
from kubenode.api.v1alpha1.hostevent import HostEventPhase as P
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.hostdoctor.parsers import PARSERS
from remedy.hostdoctor.report import ParseError, ReportedEvents, ReportedHost

NOW = datetime(2026, 1, 10, 10, 0, tzinfo=UTC)
BASE = "/subscriptions/6f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f9/resourceGroups/MC_x/providers"
VM = f"{BASE}/Microsoft.Compute/virtualMachineScaleSets/pool/virtualMachines/3"


def event(**changes: Any) -> dict[str, Any]:
    return {
        "EventId": "602d9444-d2cd-49c7-8624-8643e7171297",
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["pool_3"],
        "EventStatus": "Scheduled",
        "NotBefore": "Sat, 10 Jan 2026 10:15:00 GMT",
        "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
        **changes,
    }


def told(*events: Any) -> ReportedEvents:
    return PARSERS["azure_imds"]({"DocumentIncarnation": 2, "Events": list(events)}, NOW)


@pytest.mark.parametrize("text", ["Sat, 10 Jan 2026 10:15:00 GMT", "2026-01-10T11:15:00+01:00"])
def test_both_forms_of_a_date_are_the_same_instant(text: str) -> None:
    (found,) = told(event(NotBefore=text)).events
    assert found.not_before == datetime(2026, 1, 10, 10, 15, tzinfo=UTC)


def test_an_event_that_has_started_has_no_date() -> None:
    (found,) = told(event(EventStatus="Started", NotBefore="")).events
    assert (found.phase, found.not_before, found.class_) == (P.ACTIVE, None, C.REBOOT)


@pytest.mark.parametrize(
    ("kind", "class_"),
    [
        ("Freeze", C.FREEZE),
        ("Reboot", C.REBOOT),
        ("Redeploy", C.REDEPLOY),
        ("Preempt", C.SPOT_INTERRUPTION),
        ("Terminate", C.RETIRE),
    ],
)
def test_each_type_has_its_class(kind: str, class_: C) -> None:
    assert told(event(EventType=kind)).events[0].class_ is class_


@pytest.mark.parametrize("seconds", [0, 9])
def test_a_freeze_of_seconds_is_information(seconds: int) -> None:
    (found,) = told(event(EventType="Freeze", DurationInSeconds=seconds)).events
    assert found.severity is Severity.INFO
    assert found.attributes["durationSeconds"] == str(seconds)


def test_an_event_of_several_machines_is_one_for_each() -> None:
    found = told(event(Resources=["pool_3", "pool_4"]))
    assert [e.host for e in found.events] == [
        ReportedHost(instance="pool_3"),
        ReportedHost(instance="pool_4"),
    ]
    assert {e.attributes["resources"] for e in found.events} == {"pool_3,pool_4"}


def test_one_machine_shares_its_event_with_nobody() -> None:
    assert "resources" not in told(event()).events[0].attributes


def test_of_unknown_types_people_are_told_and_other_resources_are_said() -> None:
    found = told(event(EventType="Levitate"), event(ResourceType="HostGroup"))
    assert [one.class_ for one in found.events] == [C.OTHER]
    assert (len(found.ignored), found.complete) == (1, True)


@pytest.mark.parametrize(
    ("status", "phase"),
    [("started", P.ACTIVE), ("Completed", P.COMPLETED), ("Canceled", P.CANCELLED)],
)
def test_a_status_counts_by_what_it_means(status: str, phase: P) -> None:
    assert told(event(EventStatus=status)).events[0].phase is phase


def test_of_an_unknown_status_people_are_told_and_the_list_ends_nothing() -> None:
    found = told(event(EventStatus="Perhaps"))
    assert [(one.class_, one.advisory) for one in found.events] == [(C.OTHER, True)]
    assert not found.complete


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"EventId": None}, "EventId"),
        ({"Resources": []}, "Resources"),
        ({"Resources": [7]}, "Resources"),
        ({"Resources": "pool_3"}, "Resources"),
        ({"NotBefore": "tomorrow"}, "NotBefore"),
        ({"DurationInSeconds": "9"}, "DurationInSeconds"),
    ],
)
def test_an_error_names_the_field(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ParseError, match=named):
        told(event(**changes))


def test_a_document_without_a_list_is_no_empty_list() -> None:
    with pytest.raises(ParseError, match="Events"):
        PARSERS["azure_imds"]({"DocumentIncarnation": 2}, NOW)


def health(state: str, machine: str = VM, **about: Any) -> dict[str, Any]:
    return {
        "id": f"{machine}/providers/Microsoft.ResourceHealth/availabilityStatuses/current",
        "type": "Microsoft.ResourceHealth/AvailabilityStatuses",
        "properties": {
            "availabilityState": state,
            "summary": "We're sorry, your virtual machine is unavailable",
            "reasonType": "Unplanned",
            "occuredTime": "2026-01-10T09:41:03.1234567Z",
            "reasonChronicity": "Persistent",
            **about,
        },
    }


def healthy(*statuses: Any, **more: Any) -> ReportedEvents:
    return PARSERS["azure_resource_health"]({"value": list(statuses), **more}, NOW)


def test_a_machine_that_is_not_available_is_a_fault_of_its_host() -> None:
    (found,) = healthy(health("Unavailable")).events
    assert (found.class_, found.phase) == (C.HARDWARE_FAULT, P.ACTIVE)
    assert found.host == ReportedHost(instance=VM)
    assert found.severity is Severity.CRITICAL
    assert found.not_before == datetime(2026, 1, 10, 9, 41, 3, 123456, tzinfo=UTC)


def test_planned_work_is_maintenance_and_a_persons_stop_is_nothing() -> None:
    planned = health("Unavailable", reasonType="Planned")
    person = health("Unavailable", reasonType="UserInitiated")
    found = healthy(planned, person)
    assert [e.class_ for e in found.events] == [C.MAINTENANCE]
    assert found.ignored == ("a person stopped the machine",)


@pytest.mark.parametrize("state", ["Available", "Unknown"])
def test_what_is_well_or_unknown_is_no_fault(state: str) -> None:
    found = healthy(health(state))
    assert (found.events, found.complete) == ((), True)


def test_a_page_that_is_followed_by_another_is_no_whole_list() -> None:
    assert not healthy(nextLink="https://management.azure.com/more").complete


def test_what_is_no_machine_is_passed_over() -> None:
    found = healthy(health("Unavailable", f"{BASE}/Microsoft.Sql/servers/a"))
    assert (found.events, len(found.ignored)) == ((), 1)
