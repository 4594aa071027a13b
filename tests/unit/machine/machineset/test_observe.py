"""What a set sees in a Machine, its Node and its class."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from support.clock import T0, FakeClock

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Machine, MachineClass
from kubenode.api.v1alpha1.machineset import MachineSetHealth
from kubenode.runtime.hosttime import host_time
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeCondition, NodeStatus
from machine.machineset.nodeclocks import NodeClocks
from machine.machineset.observe import MemberSurroundings, member, room
from machine.names import HANDS_OFF, LEAVING, PRESERVED

HEALTH = MachineSetHealth()


def ago(minutes: float) -> datetime:
    return T0 - timedelta(minutes=minutes)


def a_machine(name: str = "m", spec: Any = None, annotations: Any = None, **status: Any) -> Machine:
    conditions = [
        {"type": type_, "status": said, "reason": reason, "lastTransitionTime": format_time(ago(9))}
        for type_, (said, reason) in status.pop("conditions", {}).items()
    ]
    return Machine.model_validate(
        {
            "metadata": {
                "name": name,
                "creationTimestamp": format_time(ago(60)),
                "annotations": annotations or {},
            },
            "spec": {"origin": "Provision", "classRef": "c", **(spec or {})},
            "status": {"nodeRef": {"name": name}, "conditions": conditions, **status},
        }
    )


def a_node(
    status: str, since: datetime | None, heard: datetime = T0, off: timedelta = timedelta(0)
) -> Node:
    """off  by how much the host's clock is ahead"""
    turned = None if since is None else host_time(since + off)
    ready = NodeCondition("Ready", status, "", "", host_time(heard + off), turned)
    return Node(KubeObjectMeta(name="m"), status=NodeStatus(conditions=[ready]))


def around(node: Node | None, **parts: Any) -> MemberSurroundings:
    """As a set sees it that has just started."""
    clock = FakeClock()
    clocks = NodeClocks(lambda: [] if node is None else [node], clock)
    clocks.follow(["Ready"])
    return MemberSurroundings(node, **parts, conditions=clocks.conditions("m"))


def unhealthy(machine: Machine, node: Node | None) -> tuple[str, datetime | None]:
    found, turn = member(machine, around(node), "", HEALTH, T0)
    return found.unhealthy, turn


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_node_is_unhealthy_once_its_condition_has_lasted(status: str) -> None:
    assert "is " + status in unhealthy(a_machine(), a_node(status, ago(10)))[0]
    assert unhealthy(a_machine(), a_node(status, ago(9))) == ("", T0 + timedelta(minutes=1))
    assert unhealthy(a_machine(), a_node("True", ago(99))) == ("", None)


def test_what_nobody_says_since_when_counts_from_when_we_saw_it() -> None:
    assert unhealthy(a_machine(), a_node("False", None)) == ("", T0 + timedelta(minutes=10))


@pytest.mark.parametrize("off", [timedelta(hours=-2), timedelta(hours=2)])
def test_node_is_unhealthy_after_its_time_by_our_clock_when_its_hosts_clock_is_off(
    off: timedelta,
) -> None:
    five_seconds = a_node("False", T0 - timedelta(seconds=5), T0, off)
    assert unhealthy(a_machine(), five_seconds) == (
        "",
        T0 + timedelta(minutes=10) - timedelta(seconds=5),
    )
    assert "is False" in unhealthy(a_machine(), a_node("False", ago(10), T0, off))[0]


def test_beginning_of_a_condition_keeps_its_age_when_our_clock_is_set() -> None:
    clock, nodes = FakeClock(), [a_node("False", ago(5))]
    clocks = NodeClocks(lambda: nodes, clock)
    clocks.follow(["Ready"])
    clock.set_wall(timedelta(hours=1))
    assert clock.now() - clocks.conditions("m")["Ready"].since == timedelta(minutes=5)


def test_condition_is_followed_of_nodes_that_are_there_and_of_those_that_come() -> None:
    clock, nodes = FakeClock(), [a_node("True", ago(5))]
    clocks = NodeClocks(lambda: nodes, clock)
    assert not clocks.changed("m", nodes[0])
    clocks.follow(["Ready"])
    clock.step(timedelta(seconds=30))
    assert clocks.changed("m", a_node("False", ago(0)))
    assert clocks.conditions("m")["Ready"].since == clock.now()
    assert not clocks.changed("m", a_node("False", ago(0), T0 + timedelta(seconds=10)))
    assert clocks.changed("m", None) and not clocks.conditions("m")


def test_a_node_that_is_no_more_is_unknown_since_the_machine_shows_it() -> None:
    gone = a_machine(conditions={"NodeReady": ("False", "Waiting")})
    assert unhealthy(gone, None) == ("", T0 + timedelta(minutes=1))
    assert unhealthy(a_machine(nodeRef=None), None) == ("", None)


def test_a_silent_agent_alone_is_no_reason() -> None:
    silent = a_machine(phase="Degraded", conditions={"AgentReady": ("False", "LeaseStale")})
    assert unhealthy(silent, a_node("True", ago(99))) == ("", None)


def test_what_failed_is_unhealthy_with_its_reason() -> None:
    why = {"InstanceReady": ("False", "InstanceGone")}
    found, _ = member(
        a_machine(phase="Failed", conditions=why), MemberSurroundings(), "", HEALTH, T0
    )
    assert found.unhealthy and found.failed and found.gone


def test_a_machine_back_from_repair_is_available_after_its_burn_in() -> None:
    machine = a_machine(spec={"minReady": "5m"}, conditions={"Available": ("True", "Available")})
    node = a_node("True", ago(99))

    def available(**parts: Any) -> tuple[bool, datetime | None]:
        found, turn = member(machine, MemberSurroundings(node, **parts), "", HEALTH, T0)
        return found.available, turn

    assert available() == (True, None)
    assert available(repair="job-1") == (False, None)
    assert available(repaired=ago(4)) == (False, T0 + timedelta(minutes=1))
    assert available(repaired=ago(5)) == (True, None)


def test_an_operation_of_a_job_is_a_repair() -> None:
    operation = {"id": "rj-1", "type": "Replace", "permit": "p"}
    found, _ = member(
        a_machine(spec={"operation": operation}), MemberSurroundings(), "", HEALTH, T0
    )
    assert found.repair == "rj-1" and found.sick


@pytest.mark.parametrize(
    ("id_", "state", "repair"),
    [
        ("rj-1", "Running", "rj-1"),
        ("rj-1", "Succeeded", ""),
        ("rj-1", "Failed", ""),
        ("rj-0", "Failed", "rj-1"),
    ],
)
def test_an_operation_that_was_answered_is_none_any_more(id_: str, state: str, repair: str) -> None:
    operation = {"id": "rj-1", "type": "Redeploy", "permit": "p"}
    last = {"id": id_, "type": "Redeploy", "state": state}
    machine = a_machine(spec={"operation": operation}, lastOperation=last)
    found, _ = member(machine, MemberSurroundings(), "", HEALTH, T0)
    assert found.repair == repair


@pytest.mark.parametrize(
    ("made_from", "now", "outdated"),
    [("1-a", "1-a", False), ("1-a", "1-b", True), ("", "1-b", False), ("1-a", "", False)],
)
def test_another_class_hash_is_outdated_and_an_unknown_one_is_not(
    made_from: str, now: str, outdated: bool
) -> None:
    machine = a_machine(provisioning={"classHash": made_from})
    assert member(machine, MemberSurroundings(), now, HEALTH, T0)[0].outdated is outdated


def test_marks_are_read_with_care() -> None:
    marks = {LEAVING: "nonsense", PRESERVED: "for ever", HANDS_OFF: "false"}
    found, _ = member(a_machine(annotations=marks), MemberSurroundings(), "", HEALTH, T0)
    assert (found.leaving, found.preserved, found.hands_off) == (None, None, False)


# -- the class ------------------------------------------------------------------------------------


def a_class(ready: str = "True", seen: int = 2, **limits: int) -> MachineClass:
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": "Test",
        "message": "config.image: missing",
        "observedGeneration": seen,
        "lastTransitionTime": format_time(T0),
    }
    spec = {"provider": "local", "config": {}, "limits": limits}
    meta = {"name": "c", "generation": 2}
    return MachineClass.model_validate(
        {"metadata": meta, "spec": spec, "status": {"conditions": [condition]}}
    )


@pytest.mark.parametrize(
    ("class_", "says"),
    [
        (None, "no MachineClass c"),
        (a_class(seen=1), "not been looked at"),
        (a_class("False"), "config.image: missing"),
    ],
)
def test_none_is_made_of_a_class_that_is_not_ready(class_: MachineClass | None, says: str) -> None:
    found = room("c", class_, [], T0)
    assert says in found.blocked and found.reason == "PreflightFailed" and not found.remaining


def test_the_limits_of_a_class_hold_for_all_of_its_machines() -> None:
    old = [a_machine(f"m{i}") for i in range(3)]
    assert room("c", a_class(maxInstances=5), old, T0).remaining == 2
    full = room("c", a_class(maxInstances=3), old, T0)
    assert full.reason == "QuotaExceeded" and "maxInstances" in full.blocked
    young = a_machine("young")
    young.metadata.creation_timestamp = T0 - timedelta(seconds=20)
    paced = room("c", a_class(createsPerMinute=1), [*old, young], T0)
    assert (paced.remaining, paced.again) == (0, T0 + timedelta(seconds=40))


def test_while_one_waits_for_quota_no_other_is_made() -> None:
    waits = a_machine("w", conditions={"InstanceReady": ("False", "QuotaExceeded")})
    found = room("c", a_class(), [waits], T0)
    assert found.reason == "QuotaExceeded" and "Machine w waits" in found.blocked
