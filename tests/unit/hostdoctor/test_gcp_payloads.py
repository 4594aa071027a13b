"""Traps of Google Cloud's maintenance and preemption."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kubenode.api.v1alpha1.hostevent import HostEventClass as C
from kubenode.api.v1alpha1.hostevent import HostEventPhase as P
from remedy.hostdoctor.parsers import PARSERS
from remedy.hostdoctor.report import ParseError, ReportedEvents, ReportedHost

NOW = datetime(2026, 1, 10, 10, 0, tzinfo=UTC)
SNAKE = {
    "can_reschedule": "false",
    "latest_window_start_time": "2026-02-01T19:00:01Z",
    "maintenance_status": "PENDING",
    "type": "SCHEDULED",
    "window_end_time": "2026-02-01T21:00:01Z",
    "window_start_time": "2026-02-01T19:00:01Z",
    "maintenance_reasons": ["PLANNED_UPDATE"],
}
CAMEL = {
    "canReschedule": True,
    "latestWindowStartTime": "2026-02-01T19:00:01Z",
    "maintenanceStatus": "PENDING",
    "type": "SCHEDULED",
    "windowEndTime": "2026-02-01T21:00:01Z",
    "windowStartTime": "2026-02-01T19:00:01Z",
    "maintenanceReasons": ["PLANNED_UPDATE"],
}
LINK = "https://www.googleapis.com/compute/v1/projects/shop-1/zones/europe-west1-b/instances/w-7"


def told(transport: str, payload: Any) -> ReportedEvents:
    return PARSERS[transport](payload, NOW)


def instance(maintenance: dict[str, Any]) -> dict[str, Any]:
    return {"selfLink": LINK, "resourceStatus": {"upcomingMaintenance": maintenance}}


def test_metadata_server_and_api_tell_of_the_same_maintenance() -> None:
    (by_metadata,) = told("gcp_upcoming_maintenance", SNAKE).events
    (by_api,) = told("gcp_instances", {"items": [instance(CAMEL)]}).events
    assert by_metadata.external_id == by_api.external_id
    assert by_metadata.class_ is by_api.class_ is C.MAINTENANCE
    assert by_metadata.not_before == by_api.not_before == datetime(2026, 2, 1, 19, 0, 1, tzinfo=UTC)
    assert by_metadata.host == ReportedHost()
    assert by_api.host == ReportedHost(provider_id="gce://shop-1/europe-west1-b/w-7")
    assert [e.attributes["canReschedule"] for e in (by_metadata, by_api)] == ["false", "true"]


@pytest.mark.parametrize("none", [{}, None, "", "{}"])
def test_nothing_is_a_whole_list_of_nothing(none: Any) -> None:
    found = told("gcp_upcoming_maintenance", none)
    assert (found.events, found.complete) == ((), True)


def test_maintenance_that_goes_on_is_active() -> None:
    (event,) = told("gcp_upcoming_maintenance", {**SNAKE, "maintenance_status": "ONGOING"}).events
    assert event.phase is P.ACTIVE


@pytest.mark.parametrize(
    ("text", "class_", "phase"),
    [
        ("MIGRATE_ON_HOST_MAINTENANCE", C.FREEZE, P.ACTIVE),
        ("TERMINATE_ON_HOST_MAINTENANCE\n", C.STOP, P.SCHEDULED),
    ],
)
def test_the_maintenance_event_is_plain_text(text: str, class_: C, phase: P) -> None:
    (event,) = told("gcp_maintenance_event", text).events
    assert (event.class_, event.phase, event.host) == (class_, phase, ReportedHost())


def test_none_ends_it() -> None:
    found = told("gcp_maintenance_event", "NONE")
    assert (found.events, found.complete) == ((), True)


@pytest.mark.parametrize(("text", "count"), [("TRUE", 1), ("FALSE", 0), (True, 1), (False, 0)])
def test_preemption_is_a_truth_value(text: Any, count: int) -> None:
    events = told("gcp_preempted", text).events
    assert [e.class_ for e in events] == [C.SPOT_INTERRUPTION] * count


def test_an_instance_without_maintenance_says_nothing() -> None:
    found = told("gcp_instances", {"items": [{"selfLink": LINK}, instance({})]})
    assert (found.events, found.complete) == ((), True)


def test_a_page_that_is_followed_by_another_is_no_whole_list() -> None:
    assert not told("gcp_instances", {"items": [], "nextPageToken": "x"}).complete


@pytest.mark.parametrize(
    ("transport", "payload", "named"),
    [
        ("gcp_upcoming_maintenance", [], "the body"),
        ("gcp_upcoming_maintenance", {"type": "SCHEDULED"}, "maintenance_status"),
        ("gcp_upcoming_maintenance", {**SNAKE, "window_start_time": "soon"}, "window_start_time"),
        ("gcp_maintenance_event", "PERHAPS", "the text"),
        ("gcp_maintenance_event", {"a": 1}, "plain text"),
        ("gcp_preempted", "MAYBE", "the text"),
        ("gcp_instances", {}, "items"),
        ("gcp_instances", {"items": [{**instance(CAMEL), "selfLink": "w-7"}]}, "selfLink"),
    ],
)
def test_an_error_names_the_field(transport: str, payload: Any, named: str) -> None:
    with pytest.raises(ParseError, match=named):
        told(transport, payload)


def test_of_a_status_that_nobody_knows_people_are_told_and_nothing_ends() -> None:
    found = told("gcp_upcoming_maintenance", {"maintenance_status": "LEVITATING"})
    assert [(one.class_, one.advisory) for one in found.events] == [(C.OTHER, True)]
    assert not found.complete
    done = told("gcp_upcoming_maintenance", {"maintenance_status": "COMPLETED"})
    assert [(one.class_, one.phase) for one in done.events] == [(C.MAINTENANCE, P.COMPLETED)]


def test_of_a_kind_of_maintenance_that_nobody_knows_people_are_told() -> None:
    found = told("gcp_maintenance_event", "LEVITATE_ON_HOST_MAINTENANCE")
    assert [(one.class_, one.phase) for one in found.events] == [(C.OTHER, P.ACTIVE)]
    with pytest.raises(ParseError):
        told("gcp_maintenance_event", "<html>levitate</html>")
