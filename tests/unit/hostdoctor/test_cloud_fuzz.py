"""Whatever a cloud sends, a parser answers or says which field is wrong; it never breaks."""

import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubenode.api.v1alpha1.hostevent import HostEventSpec
from remedy.hostdoctor.parsers import PARSERS
from remedy.hostdoctor.report import ParseError, ReportedEvents

NOW = datetime(2026, 1, 10, 10, 0, tzinfo=UTC)
SOME = settings(max_examples=settings().max_examples // 4)
"""Of each transport; the fuzz targets look long."""
CLOUDS = sorted(name for name in PARSERS if name.partition("_")[2])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=40)
    | st.sampled_from(["", "x" * 5000, "\ud800", "\x00", "2026-01-10T10:15:00Z", "-", "i-1/"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)
AZURE = {
    "DocumentIncarnation": 2,
    "Events": [
        {
            "EventId": "602d9444",
            "EventType": "Reboot",
            "ResourceType": "VirtualMachine",
            "Resources": ["pool_3", "pool_4"],
            "EventStatus": "Scheduled",
            "NotBefore": "Sat, 10 Jan 2026 10:15:00 GMT",
            "Description": "Host server is undergoing maintenance.",
            "EventSource": "Platform",
            "DurationInSeconds": -1,
        }
    ],
}
HEALTH = {
    "id": "7bf73129",
    "detail-type": "AWS Health Event",
    "time": "2026-01-10T09:59:30Z",
    "detail": {
        "eventArn": "arn:aws:health:eu-west-1::event/EC2/X/X-1",
        "service": "EC2",
        "eventTypeCategory": "scheduledChange",
        "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
        "startTime": "Thu, 29 Jan 2026 03:00:00 GMT",
        "endTime": "Thu, 29 Jan 2026 04:00:00 GMT",
        "eventDescription": [{"latestDescription": "degraded hardware"}],
        "affectedEntities": [{"entityValue": "i-0123456789abcdef0"}],
    },
}
LIFECYCLE = {
    "EC2InstanceId": "i-0123456789abcdef0",
    "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
    "LifecycleHookName": "drain-first",
    "LifecycleActionToken": "87654321",
    "AutoScalingGroupName": "workers",
    "Time": "2026-01-10T09:59:30Z",
}
ALIBABA = {
    "id": "2256A988",
    "resourceId": "acs:ecs:cn-hangzhou:1690700:instance/i-bp1",
    "name": "Instance:SystemMaintenance.Reboot:Scheduled",
    "eventTime": "20260110T175959.922+0800",
    "content": {
        "eventId": "e-1",
        "instanceId": "i-bp1",
        "eventType": "SystemMaintenance.Reboot",
        "eventStatus": "Scheduled",
        "notBefore": "2026-01-12T00:00:00Z",
    },
}
FULL = {
    "InstanceFullStatusSet": {
        "InstanceFullStatusType": [
            {
                "InstanceId": "i-bp1",
                "ScheduledSystemEventSet": {
                    "ScheduledSystemEventType": [
                        {
                            "EventId": "e-1",
                            "EventCycleStatus": {"Code": 24, "Name": "Scheduled"},
                            "EventType": {"Code": 1, "Name": "SystemMaintenance.Reboot"},
                            "NotBefore": "2026-01-11T06:32:31Z",
                        }
                    ]
                },
            }
        ]
    },
    "TotalCount": 1,
}
UPCOMING = {
    "can_reschedule": "false",
    "maintenance_status": "PENDING",
    "window_start_time": "2026-02-01T19:00:01Z",
    "maintenance_reasons": ["PLANNED_UPDATE"],
}
STATUS = {
    "InstanceStatuses": [
        {
            "InstanceId": "i-0123456789abcdef0",
            "Events": [
                {
                    "InstanceEventId": "instance-event-1",
                    "Code": "instance-stop",
                    "Description": "degraded",
                    "NotBefore": "2026-01-21T10:00:00Z",
                }
            ],
            "SystemStatus": {"Status": "impaired", "Details": [{"ImpairedSince": None}]},
        }
    ]
}
SOUND: list[tuple[str, Any]] = [
    ("azure_imds", AZURE),
    ("aws_eventbridge", HEALTH),
    ("aws_sqs", LIFECYCLE),
    ("aws_instance_status", STATUS),
    ("alibaba_notification", ALIBABA),
    ("alibaba_instances_full_status", FULL),
    ("gcp_upcoming_maintenance", UPCOMING),
]


def fits(told: ReportedEvents) -> None:
    """All of it can be written as a HostEvent."""
    for event in told.events:
        HostEventSpec.model_validate(
            {
                "source": event.source,
                "externalID": event.external_id,
                "class": event.class_,
                "severity": event.severity,
                "node": {},
                "notBefore": event.not_before,
                "notAfter": event.not_after,
                "attributes": dict(event.attributes),
                "message": event.message,
            }
        )
    json.dumps([dict(event.attributes) for event in told.events]).encode()
    for event in told.events:
        (event.message + event.external_id).encode()


def parsed(transport: str, payload: Any) -> None:
    try:
        fits(PARSERS[transport](payload, NOW))
    except ParseError as error:
        text = str(error)
        text.encode()
        assert 0 < len(text) < 500
        assert " send " in text


@pytest.mark.parametrize("transport", CLOUDS)
@SOME
@given(payload=VALUES)
@pytest.mark.exhaustive
def test_anything(transport: str, payload: Any) -> None:
    parsed(transport, payload)


@pytest.mark.parametrize("transport", CLOUDS)
@SOME
@given(raw=st.binary(max_size=60) | st.sampled_from([b"[" * 100_000, b'{"a":1e999}', b"NaN"]))
def test_any_bytes(transport: str, raw: bytes) -> None:
    parsed(transport, raw)


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [way] if way else []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*way, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            found += places(inner, (*way, number))
    return found


@pytest.mark.parametrize(("transport", "payload"), SOUND, ids=[name for name, _ in SOUND])
@SOME
@given(data=st.data())
def test_a_sound_payload_with_one_place_changed(
    transport: str, payload: Any, data: st.DataObject
) -> None:
    *way, last = data.draw(st.sampled_from(places(payload)))
    changed = copy.deepcopy(payload)
    inside = changed
    for key in way:
        inside = inside[key]
    inside[last] = data.draw(VALUES)
    parsed(transport, changed)


@pytest.mark.parametrize(("transport", "payload"), SOUND, ids=[name for name, _ in SOUND])
def test_a_sound_payload_has_events(transport: str, payload: Any) -> None:
    told = PARSERS[transport](payload, NOW)
    assert told.events
    fits(told)
