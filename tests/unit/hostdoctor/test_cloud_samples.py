"""Each sample of the shared data becomes what its `normalized` says."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from support.case_data import shared_folder

from kubenode.api.v1alpha1.hostevent import HostEventClass as C
from kubenode.api.v1alpha1.hostevent import HostEventPhase as P
from remedy.hostdoctor.parsers import PARSERS
from remedy.hostdoctor.parsers.payload import instant
from remedy.hostdoctor.report import Reported, ReportedEvents

BEFORE = datetime(2016, 9, 19, 18, 29, tzinfo=UTC)
"""Earlier than every sample: what has no phase of its own is still to come."""
KINDS = {
    "billing": {C.BILLING},
    "freeze": {C.FREEZE},
    "isolate_disk": {C.DISK_FAULT},
    "maintenance": {C.MAINTENANCE},
    "preempt": {C.SPOT_INTERRUPTION},
    "reboot": {C.REBOOT, C.HARDWARE_FAULT},  # a host that failed is booted by its cloud
    "rebalance": {C.REBALANCE},
    "redeploy": {C.REDEPLOY},
    "retire": {C.RETIRE},
}
PHASES = {
    "advisory": {P.ACTIVE},
    "canceled": {P.CANCELLED},
    "finished": {P.COMPLETED},
    "scheduled": {P.SCHEDULED},
    "started": {P.ACTIVE},
    "waiting_for_approval": {P.AWAITING_APPROVAL},
}
NOTHING = ("none", "state", "test")
OURS = "azure_imds_post"
"""What we send, not what we are told: tests of the approval have it."""
NOT_ALL = {"az-other-vm", "ali-history"}
"""Their `normalized` speaks of the asking machine, or of all their events together."""


def samples() -> list[dict[str, Any]]:
    data = json.loads((shared_folder() / "host_events_samples.json").read_text())
    return [sample for sample in data["samples"] if sample["transport"] != OURS]


def told(sample: dict[str, Any]) -> ReportedEvents:
    return PARSERS[sample["transport"]](sample["payload"], BEFORE)


def phase(event: Reported) -> P:
    return event.phase or P.SCHEDULED


def instances(events: tuple[Reported, ...]) -> list[str]:
    return [event.host.instance for event in events if event.host is not None]


def test_every_transport_of_the_samples_has_a_parser() -> None:
    data = json.loads((shared_folder() / "host_events_samples.json").read_text())
    assert {one["transport"] for one in data["formats"]} - {OURS} <= set(PARSERS)


def test_samples_give_the_events_that_they_should() -> None:
    for sample in samples():
        wanted, events = sample["normalized"], told(sample).events
        if wanted["kind"] in NOTHING:
            assert events == (), sample["id"]
            continue
        assert events, sample["id"]
        if wanted["instance"] is None:
            assert all(event.host is not None for event in events), sample["id"]
            assert set(instances(events)) == {""}, sample["id"]
        else:
            named = wanted["instance"]
            assert set(instances(events)) == set([named] if isinstance(named, str) else named)
        for event in events:
            if "event_id" in wanted:
                assert event.external_id == wanted["event_id"]
            if sample["id"] in NOT_ALL:
                continue
            assert event.class_ in KINDS[wanted["kind"]], sample["id"]
            assert phase(event) in PHASES[wanted["phase"]], sample["id"]
            due = wanted["not_before"]
            assert event.not_before == (instant("wanted", due) if due else None), sample["id"]


def by_id(identity: str) -> ReportedEvents:
    return told(next(one for one in samples() if one["id"] == identity))


def test_history_opens_nothing_and_an_avoided_event_is_cancelled_under_its_old_name() -> None:
    found = by_id("ali-history")
    assert [event.phase for event in found.events] == [P.COMPLETED, P.CANCELLED]
    assert {event.host.instance for event in found.events if event.host} == {
        "i-2ze3tphuqvc93cixxxx3"
    }
    assert found.events[1].attributes["type"] == "InstanceExpiration.Stop"
    assert not found.complete


def test_an_event_of_several_machines_is_one_for_each_and_names_them_all() -> None:
    found = by_id("az-other-vm")
    assert [(e.class_, e.phase) for e in found.events] == [(C.REBOOT, P.SCHEDULED)] * 2
    assert {e.external_id for e in found.events} == {"A123BC45-1234-5678-AB90-ABCDEF123456"}
    assert {e.attributes["resources"] for e in found.events} == {"vmss_vm2,vmss_vm3"}


def test_an_empty_list_is_whole() -> None:
    found = by_id("az-empty")
    assert (found.events, found.complete, found.scope) == ((), True, "azure_imds")


@pytest.mark.parametrize(
    ("identity", "class_"),
    [
        ("az-hwfail-started", C.HARDWARE_FAULT),
        ("az-redeploy-platform", C.REDEPLOY),
        ("ali-sysfail-reboot-exec", C.HARDWARE_FAULT),
        ("ali-instfail-reboot-done", C.REBOOT),
    ],
)
def test_a_host_that_failed_is_told_from_a_planned_reboot(identity: str, class_: C) -> None:
    assert [event.class_ for event in by_id(identity).events] == [class_]


def test_an_unknown_duration_is_not_zero() -> None:
    assert "durationSeconds" not in by_id("az-reboot-user").events[0].attributes
    assert by_id("az-freeze-livemig").events[0].attributes["durationSeconds"] == "5"


def test_rebalance_is_advice() -> None:
    assert [event.advisory for event in by_id("aws-imds-rebalance").events] == [True]


def test_a_test_message_is_said_to_be_one() -> None:
    assert by_id("aws-sqs-asg-test").ignored == ("test notification of Auto Scaling",)
