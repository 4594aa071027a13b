"""Traps of ECS' system events."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from kubenode.api.v1alpha1.hostevent import HostEventClass as C
from kubenode.api.v1alpha1.hostevent import HostEventPhase as P
from remedy.hostdoctor.parsers import PARSERS
from remedy.hostdoctor.report import ParseError, ReportedEvents, ReportedHost

NOW = datetime(2026, 1, 10, 10, 0, tzinfo=UTC)
INSTANCE = "i-bp1ecr5go2go0001"


def notice(name: str, content: Any, **changes: Any) -> ReportedEvents:
    body = {
        "ver": "1.0",
        "id": "2256A988-0B26-4E2B-820A-8A0000000000",
        "product": "ECS",
        "resourceId": f"acs:ecs:cn-hangzhou:1690700:instance/{INSTANCE}",
        "level": "CRITICAL",
        "name": name,
        "eventTime": "20260110T175959.922+0800",
        "regionId": "cn-hangzhou",
        "content": content,
        **changes,
    }
    return PARSERS["alibaba_notification"](body, NOW)


def content(kind: str, status: str, **more: Any) -> dict[str, Any]:
    return {
        "eventId": "e-bp11trd0pqum3",
        "publishTime": "2026-01-10T09:59:26Z",
        "instanceId": INSTANCE,
        "eventType": kind,
        "eventStatus": status,
        **more,
    }


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ("Inquiring", P.AWAITING_APPROVAL),
        ("Scheduled", P.SCHEDULED),
        ("Executing", P.ACTIVE),
        ("Executed", P.COMPLETED),
        ("Avoided", P.CANCELLED),
        ("Canceled", P.CANCELLED),
        ("Failed", P.COMPLETED),
    ],
)
def test_the_status_counts_and_not_the_name_that_an_avoided_event_keeps(
    status: str, phase: P
) -> None:
    kind = "SystemMaintenance.Reboot"
    (event,) = notice(f"Instance:{kind}:Scheduled", content(kind, status)).events
    assert (event.class_, event.phase) == (C.REBOOT, phase)
    assert event.external_id == "e-bp11trd0pqum3"


def test_a_time_at_which_it_finished_ends_it() -> None:
    kind = "SystemMaintenance.Redeploy"
    over = content(kind, "Executing", executeFinishTime="2026-01-10T09:59:59Z")
    assert notice(f"Instance:{kind}:Executing", over).events[0].phase is P.COMPLETED


@pytest.mark.parametrize(
    ("about", "where"),
    [
        ({"instanceId": INSTANCE}, "instanceId"),
        ({"ecsInstanceId": INSTANCE, "diskId": "d-bp1", "device": "/dev/xvdb"}, "ecsInstanceId"),
        ({"resourceId": INSTANCE}, "resourceId"),
        ({}, "the resource's whole name"),
    ],
)
def test_the_instance_stands_in_one_of_four_places(about: dict[str, str], where: str) -> None:
    (event,) = notice("Instance:SystemFailure.Reboot:Executing", {"eventId": "e-1", **about}).events
    assert event.host == ReportedHost(instance=INSTANCE), where


@pytest.mark.parametrize(
    ("name", "class_", "phase"),
    [
        ("Disk:Stalled", C.DISK_FAULT, P.ACTIVE),
        ("Disk:ErrorDetected:Executing", C.DISK_FAULT, P.ACTIVE),
        ("Disk:SeverelyDegraded:Executed", C.DISK_FAULT, P.COMPLETED),
        ("Instance:Degraded", C.HARDWARE_FAULT, P.ACTIVE),
        ("Instance:LiveMigrationAcrossDDH:Executing", C.FREEZE, P.ACTIVE),
        ("Instance:InstanceFailure.Reboot:Executed", C.REBOOT, P.COMPLETED),
        ("Instance:SystemFailure.Stop:Executing", C.HARDWARE_FAULT, P.ACTIVE),
        ("Instance:AccountUnbalanced.Stop:Scheduled", C.BILLING, P.SCHEDULED),
    ],
)
def test_a_name_has_two_or_three_parts(name: str, class_: C, phase: P) -> None:
    (event,) = notice(name, {"eventId": "e-1", "instanceId": INSTANCE}).events
    assert (event.class_, event.phase) == (class_, phase)


def test_a_preemption_comes_five_minutes_after_its_notice_in_the_zone_of_that() -> None:
    about = {"instanceId": INSTANCE, "action": "delete"}
    (event,) = notice("Instance:PreemptibleInstanceInterruption", about).events
    assert (event.class_, event.phase) == (C.SPOT_INTERRUPTION, P.SCHEDULED)
    assert event.not_before == datetime(2026, 1, 10, 10, 4, 59, 922000, tzinfo=UTC)


def test_event_bridge_tells_the_same_as_a_cloud_event() -> None:
    kind = "SystemMaintenance.Reboot"
    about = content(kind, "Scheduled", notBefore="2026-01-12T00:00:00Z")
    bridged = {
        "specversion": "1.0",
        "id": "45ef4dew-7c35",
        "source": "acs.ecs",
        "type": f"ecs:Instance:{kind}",
        "subject": f"acs:ecs:cn-hangzhou:1690700:instance/{INSTANCE}",
        "time": "2026-01-10T17:59:59.922+08:00",
        "data": about,
    }
    told = PARSERS["alibaba_notification"](bridged, NOW)
    assert told == notice(f"Instance:{kind}:Scheduled", about)
    other = PARSERS["alibaba_notification"]({**bridged, "type": "oss:Object:Put"}, NOW)
    assert (other.events, len(other.ignored)) == ((), 1)


@pytest.mark.parametrize("name", ["Instance:StateChange", "Instance:HibernationCompleted"])
def test_what_asks_for_nothing_is_said(name: str) -> None:
    found = notice(name, {"resourceId": INSTANCE, "state": "Running"})
    assert (found.events, len(found.ignored)) == ((), 1)


def test_of_a_type_that_nobody_knows_people_are_told_until_it_is_over() -> None:
    about = {"eventId": "e-9", "instanceId": INSTANCE}
    (open_,) = notice("Instance:SystemUpgrade.Migrate:Scheduled", about).events
    (over,) = notice("Instance:SystemUpgrade.Migrate:Avoided", about).events
    assert (open_.class_, open_.phase, open_.external_id) == (C.OTHER, P.SCHEDULED, "e-9")
    assert (over.phase, over.external_id) == (P.CANCELLED, "e-9")


def test_of_a_status_that_nobody_knows_people_are_told_and_the_event_stays() -> None:
    about = {"eventId": "e-9", "instanceId": INSTANCE}
    (beside,) = notice("Instance:SystemFailure.Reboot:Dancing", about).events
    assert (beside.class_, beside.advisory) == (C.OTHER, True)
    assert beside.external_id == "e-9/status/Dancing"
    found = full(listed(EventCycleStatus={"Name": "Dancing"}))
    assert [event.class_ for event in found.events] == [C.OTHER]
    assert not found.complete


def test_content_may_be_json_in_text() -> None:
    about = json.dumps({"eventId": "e-1", "instanceId": INSTANCE})
    assert len(notice("Instance:SystemFailure.Reboot:Executing", about).events) == 1


def full(*events: dict[str, Any], total: int | None = 1) -> ReportedEvents:
    entry = {
        "InstanceId": INSTANCE,
        "Status": {"Code": 1, "Name": "Running"},
        "ScheduledSystemEventSet": {"ScheduledSystemEventType": list(events)},
    }
    body: dict[str, Any] = {"InstanceFullStatusSet": {"InstanceFullStatusType": [entry]}}
    if total is not None:
        body["TotalCount"] = total
    return PARSERS["alibaba_instances_full_status"](body, NOW)


def listed(**changes: Any) -> dict[str, Any]:
    return {
        "EventId": "e-bp1",
        "EventCycleStatus": {"Code": 24, "Name": "Scheduled"},
        "EventType": {"Code": 1, "Name": "SystemMaintenance.Reboot"},
        "EventPublishTime": "2026-01-09T06:32:31Z",
        "NotBefore": "2026-01-11T06:32:31Z",
        **changes,
    }


def test_a_list_is_whole_if_it_has_as_many_as_it_counts() -> None:
    (event,) = full(listed()).events
    assert (event.phase, event.silent) == (P.SCHEDULED, True)
    assert event.not_before == datetime(2026, 1, 11, 6, 32, 31, tzinfo=UTC)
    assert [full(total=total).complete for total in (1, 2, None)] == [True, False, False]


@pytest.mark.parametrize("code", [1, "1"])
def test_the_code_of_a_type_is_text_for_disks_and_a_number_for_instances(code: int | str) -> None:
    disk = {
        "DiskId": "d-bp1",
        "InstanceId": INSTANCE,
        "DiskEventSet": {
            "DiskEventType": [
                {
                    "EventId": "e-2",
                    "EventType": {"Code": code, "Name": "Stalled"},
                    "EventTime": "2026-01-10T09:00:00Z",
                },
                {
                    "EventId": "e-3",
                    "EventType": {"Code": code, "Name": "Degraded"},
                    "EventTime": "2026-01-10T08:00:00Z",
                    "EventEndTime": "2026-01-10T09:00:00Z",
                },
            ]
        },
    }
    loose = {**disk, "InstanceId": "", "DiskId": "d-bp2"}
    body = {"DiskFullStatusSet": {"DiskFullStatusType": [disk, loose]}, "TotalCount": 2}
    found = PARSERS["alibaba_disks_full_status"](body, NOW)
    assert [(e.external_id, e.phase) for e in found.events] == [
        ("e-2", P.ACTIVE),
        ("e-3", P.COMPLETED),
    ]
    assert {e.class_ for e in found.events} == {C.DISK_FAULT}
    assert set(found.ignored) == {"event of a disk that no instance has"}


@pytest.mark.parametrize(
    ("read", "named"),
    [
        (lambda: notice("StateChange", {}), "name"),
        (lambda: notice("Volume:Lost", {}), "name"),
        (lambda: notice("Instance:SystemFailure.Reboot", [], id=""), "content"),
        (lambda: notice("Instance:SystemFailure.Reboot", {}, id=""), "id"),
        (lambda: notice("Instance:SystemFailure.Reboot", {}, resourceId="x/"), "resourceId"),
        (lambda: full(listed(NotBefore="2026-01-11")), "NotBefore"),
        (lambda: PARSERS["alibaba_instance_history"]({}, NOW), "InstanceSystemEventSet"),
    ],
)
def test_an_error_names_the_field(read: Any, named: str) -> None:
    with pytest.raises(ParseError, match=named):
        read()


def test_an_entry_without_its_set_of_events_does_not_say_that_there_are_none() -> None:
    whole = {"InstanceId": INSTANCE, "ScheduledSystemEventSet": {"ScheduledSystemEventType": []}}
    for entries, complete in (([whole], True), ([whole, {"InstanceId": INSTANCE}], False)):
        payload = {
            "TotalCount": len(entries),
            "InstanceFullStatusSet": {"InstanceFullStatusType": entries},
        }
        found = PARSERS["alibaba_instances_full_status"](payload, NOW)
        assert found.complete is complete
    assert "no ScheduledSystemEventSet" in found.ignored[0]
