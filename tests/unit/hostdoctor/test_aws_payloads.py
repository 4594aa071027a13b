"""Traps of EC2's events, in every transport they come by."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubenode.api.v1alpha1.hostevent import HostEventClass as C
from kubenode.api.v1alpha1.hostevent import HostEventPhase as P
from remedy.hostdoctor.parsers import PARSERS
from remedy.hostdoctor.report import ParseError, ReportedEvents, ReportedHost

NOW = datetime(2026, 1, 10, 10, 0, tzinfo=UTC)
INSTANCE = "i-0123456789abcdef0"


def scheduled(**changes: Any) -> dict[str, Any]:
    return {
        "NotBefore": "21 Jan 2026 09:00:43 GMT",
        "Code": "system-reboot",
        "Description": "scheduled reboot",
        "EventId": "instance-event-0d59937288b749b32",
        "NotAfter": "21 Jan 2026 09:17:23 GMT",
        "State": "active",
        **changes,
    }


def bridge(kind: str, detail: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "version": "0",
        "id": "7bf73129-1428-4cd3-a780-95db273d1602",
        "detail-type": kind,
        "source": "aws.ec2",
        "account": "123456789012",
        "time": "2026-01-10T09:59:30Z",
        "region": "eu-west-1",
        "resources": [f"arn:aws:ec2:eu-west-1:123456789012:instance/{INSTANCE}"],
        "detail": detail,
        **changes,
    }


def health(**changes: Any) -> dict[str, Any]:
    detail = {
        "eventArn": "arn:aws:health:eu-west-1::event/EC2/X/X-1",
        "service": "EC2",
        "eventTypeCategory": "scheduledChange",
        "eventTypeCode": "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED",
        "startTime": "Thu, 29 Jan 2026 03:00:00 GMT",
        "endTime": "Thu, 29 Jan 2026 03:00:00 GMT",
        "eventDescription": [{"language": "en_US", "latestDescription": "degraded hardware"}],
        "affectedEntities": [{"entityValue": INSTANCE}, {"entityValue": "i-0fedcba9876543210"}],
        **changes,
    }
    return bridge("AWS Health Event", detail, source="aws.health")


def lifecycle(**changes: Any) -> dict[str, Any]:
    return {
        "EC2InstanceId": INSTANCE,
        "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
        "LifecycleHookName": "drain-first",
        "LifecycleActionToken": "87654321-4321-4321-4321-210987654321",
        "AutoScalingGroupName": "workers",
        **changes,
    }


def told(transport: str, payload: Any) -> ReportedEvents:
    return PARSERS[transport](payload, NOW)


def test_a_listed_event_is_scheduled_until_it_begins_and_the_list_is_whole() -> None:
    found = told("aws_imds_scheduled", [scheduled()])
    (event,) = found.events
    assert (event.class_, event.phase, event.host) == (C.REBOOT, None, ReportedHost())
    assert event.not_before == datetime(2026, 1, 21, 9, 0, 43, tzinfo=UTC)
    assert event.not_after == datetime(2026, 1, 21, 9, 17, 23, tzinfo=UTC)
    assert (found.complete, event.silent) == (True, True)


@pytest.mark.parametrize(
    ("changes", "phase"),
    [
        ({"State": "completed"}, P.COMPLETED),
        ({"State": "canceled"}, P.CANCELLED),
        ({"Description": "[Canceled] scheduled reboot"}, P.CANCELLED),
        ({"Description": "[Completed] scheduled reboot", "State": ""}, P.COMPLETED),
    ],
)
def test_state_or_the_description_says_that_it_is_over(changes: dict[str, str], phase: P) -> None:
    assert told("aws_imds_scheduled", [scheduled(**changes)]).events[0].phase is phase


def test_of_a_code_that_nobody_knows_people_are_told() -> None:
    found = told("aws_imds_scheduled", [scheduled(Code="instance-teleport"), scheduled()])
    assert [event.class_ for event in found.events] == [C.OTHER, C.REBOOT]
    assert found.events[0].attributes == {"kind": "instance-teleport"}
    assert found.complete


def test_of_a_state_that_nobody_knows_people_are_told_and_the_list_ends_nothing() -> None:
    found = told("aws_imds_scheduled", [scheduled(State="sleeping")])
    assert [event.class_ for event in found.events] == [C.OTHER]
    assert not found.complete


@pytest.mark.parametrize(
    ("changes", "phase"),
    [
        ({"State": "postponed"}, None),
        ({"State": "Rescheduled"}, None),
        ({"State": "cancelled"}, P.CANCELLED),
        ({"State": "avoided"}, P.CANCELLED),
        ({"State": "finished"}, P.COMPLETED),
        ({"Description": "[Cancelled] scheduled reboot"}, P.CANCELLED),
        ({"Description": "[eu-west-1] scheduled reboot"}, None),
    ],
)
def test_a_state_counts_by_what_it_means(changes: dict[str, str], phase: P | None) -> None:
    (found,) = told("aws_imds_scheduled", [scheduled(**changes)]).events
    assert (found.class_, found.phase) == (C.REBOOT, phase)


def test_one_bad_event_hides_no_good_one_and_the_list_counts_as_short() -> None:
    found = told("aws_imds_scheduled", [scheduled(NotBefore="soon"), scheduled()])
    assert (len(found.events), found.complete) == (1, False)
    assert "[0].NotBefore is 'soon'" in found.ignored[0]


@pytest.mark.parametrize("empty", [None, "", b"", {}])
@pytest.mark.parametrize("transport", ["aws_imds_spot", "aws_imds_rebalance"])
def test_nothing_is_a_whole_list_of_nothing(transport: str, empty: Any) -> None:
    found = told(transport, empty)
    assert (found.events, found.complete) == ((), True)


@pytest.mark.parametrize("action", ["terminate", "stop", "hibernate"])
def test_metadata_and_eventbridge_tell_of_the_same_interruption(action: str) -> None:
    (by_imds,) = told("aws_imds_spot", {"action": action, "time": "2026-01-10T10:01:30Z"}).events
    warning = bridge(
        "EC2 Spot Instance Interruption Warning",
        {"instance-id": INSTANCE, "instance-action": action},
    )
    (by_bridge,) = told("aws_eventbridge", warning).events
    assert by_imds.external_id == by_bridge.external_id
    assert by_imds.class_ is by_bridge.class_ is C.SPOT_INTERRUPTION
    assert by_imds.not_before == by_bridge.not_before
    assert by_bridge.host == ReportedHost(instance=INSTANCE)


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("stopping", P.ACTIVE),
        ("shutting-down", P.ACTIVE),
        ("stopped", P.COMPLETED),
        ("terminated", P.COMPLETED),
    ],
)
def test_a_state_that_ends_the_instance_is_its_stop(state: str, phase: P) -> None:
    change = bridge(
        "EC2 Instance State-change Notification", {"instance-id": INSTANCE, "state": state}
    )
    (event,) = told("aws_eventbridge", change).events
    assert (event.class_, event.phase) == (C.STOP, phase)
    assert (event.not_after is not None) is phase.open, "its end may never be told"


@pytest.mark.parametrize("state", ["pending", "running", "rebooting"])
def test_a_state_that_ends_nothing_is_no_event(state: str) -> None:
    change = bridge(
        "EC2 Instance State-change Notification", {"instance-id": INSTANCE, "state": state}
    )
    found = told("aws_eventbridge", change)
    assert (found.events, len(found.ignored)) == ((), 1)


def test_a_rebalance_recommendation_is_advice() -> None:
    hint = bridge("EC2 Instance Rebalance Recommendation", {"instance-id": INSTANCE})
    (event,) = told("aws_eventbridge", hint).events
    assert (event.class_, event.advisory) == (C.REBALANCE, True)


@pytest.mark.parametrize("wrapped", ["bridge", "direct", "sns"])
def test_a_lifecycle_action_waits_for_our_word(wrapped: str) -> None:
    by_bridge = bridge("EC2 Instance-terminate Lifecycle Action", lifecycle())
    body: Any = {
        "bridge": by_bridge,
        "direct": {**lifecycle(), "Time": "2026-01-10T09:59:30Z", "Service": "AWS Auto Scaling"},
        "sns": {"Type": "Notification", "Message": json.dumps(by_bridge)},
    }[wrapped]
    (event,) = told("aws_sqs", json.dumps(body)).events
    assert event.external_id == "lifecycle/drain-first/87654321-4321-4321-4321-210987654321"
    assert (event.class_, event.phase, event.not_before) == (C.STOP, P.SCHEDULED, None)
    assert event.not_after == datetime(2026, 1, 12, 9, 59, 30, tzinfo=UTC)
    assert event.attributes == {"group": "workers", "hook": "drain-first"}


@pytest.mark.parametrize(
    "body",
    [
        {"Event": "autoscaling:TEST_NOTIFICATION", "Time": "2026-01-10T09:59:30Z"},
        {**lifecycle(), "Event": "autoscaling:TEST_NOTIFICATION", "Time": "2026-01-10T09:59:30Z"},
        bridge(
            "EC2 Instance-terminate Lifecycle Action",
            lifecycle(Event="autoscaling:TEST_NOTIFICATION"),
        ),
        {"Event": "autoscaling:EC2_INSTANCE_TERMINATE", "EC2InstanceId": INSTANCE},
        {
            **lifecycle(LifecycleTransition="autoscaling:EC2_INSTANCE_LAUNCHING"),
            "Time": "2026-01-10T09:59:30Z",
        },
        bridge("EC2 Instance Launch Successful", {}),
    ],
)
def test_what_only_looks_like_a_termination_asks_for_nothing(body: dict[str, Any]) -> None:
    found = told("aws_sqs", body)
    assert (found.events, len(found.ignored)) == ((), 1)


def test_a_health_event_is_one_for_each_machine_and_its_date_is_of_another_form() -> None:
    events = told("aws_eventbridge", health()).events
    assert [event.class_ for event in events] == [C.RETIRE, C.RETIRE]
    assert [event.host for event in events] == [
        ReportedHost(instance=INSTANCE),
        ReportedHost(instance="i-0fedcba9876543210"),
    ]
    assert {event.not_before for event in events} == {datetime(2026, 1, 29, 3, tzinfo=UTC)}
    assert {event.not_after for event in events} == {None}, "it ends when it begins"
    assert {event.message for event in events} == {"degraded hardware"}


@pytest.mark.parametrize(
    "changes",
    [
        {"service": "RDS"},
        {"eventTypeCategory": "accountNotification"},
    ],
)
def test_other_health_events_end_no_machine(changes: dict[str, str]) -> None:
    found = told("aws_eventbridge", health(**changes))
    assert (found.events, len(found.ignored)) == ((), 1)


@pytest.mark.parametrize(
    "changes",
    [{"eventTypeCategory": "issue"}, {"eventTypeCode": "AWS_EC2_OPERATIONAL_NOTIFICATION"}],
)
def test_of_trouble_that_nobody_can_class_people_are_told(changes: dict[str, str]) -> None:
    events = told("aws_eventbridge", health(**changes)).events
    assert {event.class_ for event in events} == {C.OTHER}
    events = told("aws_eventbridge", health(**changes, statusCode="closed")).events
    assert {event.phase for event in events} == {P.COMPLETED}


def test_a_warning_of_ec2_that_nobody_knows_is_for_people() -> None:
    event = {
        "id": "12345678-1234-1234-1234-123456789012",
        "source": "aws.ec2",
        "detail-type": "EC2 Instance Levitation Warning",
        "time": "2026-01-10T09:59:00Z",
        "detail": {"instance-id": "i-0123456789abcdef0"},
    }
    (found,) = told("aws_eventbridge", event).events
    assert (found.class_, found.advisory) == (C.OTHER, True)
    of_nobody = told("aws_eventbridge", {**event, "detail": {"volume": "vol-1"}})
    assert (of_nobody.events, len(of_nobody.ignored)) == ((), 1)


def test_an_interrupted_capacity_reservation_takes_the_instance_at_the_time_that_it_says() -> None:
    event = {
        "source": "aws.ec2",
        "detail-type": "EC2 Capacity Reservation Instance Interruption Warning",
        "time": "2026-01-10T09:59:00Z",
        "detail": {
            "instance-id": "i-0123456789abcdef0",
            "instance-action": "terminate",
            "instance-termination-time": "2026-01-10T10:03:00Z",
        },
    }
    (found,) = told("aws_eventbridge", event).events
    assert found.class_ is C.SPOT_INTERRUPTION
    assert found.not_before == datetime(2026, 1, 10, 10, 3, tzinfo=UTC)


def test_a_closed_health_event_is_over() -> None:
    events = told("aws_eventbridge", health(statusCode="closed")).events
    assert {event.phase for event in events} == {P.COMPLETED}


def status(*instances: dict[str, Any], **more: Any) -> ReportedEvents:
    return told("aws_instance_status", {"InstanceStatuses": list(instances), **more})


def test_instance_status_tells_of_events_by_the_sdks_own_dates() -> None:
    at = datetime(2026, 1, 21, 10, 0, tzinfo=UTC)
    event = {
        "InstanceEventId": "instance-event-1",
        "Code": "instance-stop",
        "Description": "degraded",
        "NotBefore": at,
        "NotAfter": at + timedelta(hours=1),
    }
    done = {**event, "InstanceEventId": "instance-event-2", "Description": "[Completed] x"}
    found = status({"InstanceId": INSTANCE, "Events": [event, done]})
    assert [(e.external_id, e.class_, e.phase, e.not_before) for e in found.events] == [
        ("instance-event-1", C.STOP, None, at),
        ("instance-event-2", C.STOP, P.COMPLETED, at),
    ]
    assert found.complete


def test_a_page_that_is_followed_by_another_is_no_whole_list() -> None:
    assert not status(NextToken="more").complete


def test_a_failed_check_of_the_host_is_its_fault_and_a_failed_check_of_the_guest_is_none() -> None:
    since = datetime(2026, 1, 10, 9, 0, tzinfo=UTC)
    broken = {
        "InstanceId": INSTANCE,
        "SystemStatus": {
            "Status": "impaired",
            "Details": [{"Name": "reachability", "Status": "failed", "ImpairedSince": since}],
        },
    }
    guest = {"InstanceId": "i-0fedcba9876543210", "InstanceStatus": {"Status": "impaired"}}
    (event,) = status(broken, guest).events
    assert (event.class_, event.phase, event.not_before) == (C.HARDWARE_FAULT, P.ACTIVE, since)
    assert event.host == ReportedHost(instance=INSTANCE)


@pytest.mark.parametrize(
    ("transport", "payload", "named"),
    [
        ("aws_imds_scheduled", {}, "the body"),
        ("aws_imds_scheduled", [scheduled(EventId="")], "EventId"),
        ("aws_imds_scheduled", [scheduled(EventId="x" * 513)], "EventId"),
        ("aws_imds_scheduled", [scheduled(NotBefore="2026-01-21T09:00:43")], "NotBefore"),
        ("aws_imds_spot", {"action": 4, "time": "2026-01-10T10:01:30Z"}, "action"),
        ("aws_sqs", "{", "the body"),
        ("aws_sqs", {"hello": "world"}, "detail-type"),
        ("aws_sqs", {**lifecycle(), "Time": ""}, "Time"),
        ("aws_eventbridge", bridge("AWS Health Event", {}), "detail.service"),
        (
            "aws_eventbridge",
            bridge("EC2 Instance State-change Notification", {"state": "stopped"}),
            "detail.instance-id",
        ),
        (
            "aws_eventbridge",
            bridge("EC2 Instance-terminate Lifecycle Action", lifecycle(LifecycleHookName="a/b")),
            "LifecycleHookName",
        ),
    ],
)
def test_an_error_names_the_field_and_what_belongs_there(
    transport: str, payload: Any, named: str
) -> None:
    with pytest.raises(ParseError, match=named) as caught:
        told(transport, payload)
    assert "send" in str(caught.value)


@pytest.mark.parametrize(
    "placeholder", ["1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]
)
def test_a_placeholder_in_place_of_a_time_loses_no_interruption_notice(placeholder: str) -> None:
    found = told("aws_imds_spot", {"action": "terminate", "time": placeholder})
    (event,) = found.events
    assert event.class_ is C.SPOT_INTERRUPTION
    assert (event.phase, event.not_before) == (P.ACTIVE, None)
    found = told("aws_imds_scheduled", [scheduled(NotBefore=placeholder)])
    assert [event.not_before for event in found.events] == [None]
    assert found.complete
