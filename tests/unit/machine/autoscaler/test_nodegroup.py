"""Node groups: instances, sizes and chosen machines."""

from typing import Any

import pytest
from support.node_groups import a_group, a_group_class, a_group_machine, a_group_node

from machine.autoscaler.contract import GroupInstanceState, InstanceErrorClass
from machine.autoscaler.nodegroup import (
    GroupStatus,
    NodeGroupError,
    NodeHandle,
    choose_machine,
    describe_instance,
    instance_id,
    is_counted,
    is_same,
    limits_of,
    lower_size,
    raise_size,
)
from machine.machineset.observe import QUOTA, ClassCapacity

INITIALIZED = {"initializedAt": "2026-01-01T00:00:00Z"}


def condition(reason: str) -> dict[str, Any]:
    return {
        "type": "InstanceReady",
        "status": "False",
        "reason": reason,
        "message": "no room",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


# -- instances ------------------------------------------------------------------------------------


def test_instance_has_the_provider_id_of_its_node() -> None:
    machine = a_group_machine("m", provider_id="cloud:///1")
    assert instance_id(machine, a_group_node("m", "cloud:///other")) == "cloud:///other"
    assert instance_id(machine, None) == "cloud:///1"
    assert instance_id(a_group_machine("m"), None) == "kubenode://m"


def test_node_without_provider_id_names_no_instance() -> None:
    machine, node = a_group_machine("m", provider_id="cloud:///1"), a_group_node("m", "")
    assert instance_id(machine, node) == ""
    assert not is_same(machine, node, NodeHandle("m", ""))
    assert not is_same(machine, node, NodeHandle("m", "cloud:///1"))


@pytest.mark.parametrize("id_", ["cloud:///1", "kubenode://m"])
def test_instance_is_known_by_the_id_of_an_earlier_moment(id_: str) -> None:
    machine = a_group_machine("m", provider_id="cloud:///1")
    assert is_same(machine, None, NodeHandle(id_, id_))
    assert not is_same(machine, None, NodeHandle("m", "cloud:///2"))


@pytest.mark.parametrize(
    ("machine", "state"),
    [
        (a_group_machine("m"), GroupInstanceState.CREATING),
        (a_group_machine("m", INITIALIZED), GroupInstanceState.RUNNING),
        (a_group_machine("m", {**INITIALIZED, "phase": "Failed"}), GroupInstanceState.RUNNING),
        (
            a_group_machine("m", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            GroupInstanceState.DELETING,
        ),
        (
            a_group_machine("m", metadata={"annotations": {"kubenode.io/leaving": "ScaleIn"}}),
            GroupInstanceState.DELETING,
        ),
        (
            a_group_machine(
                "m", INITIALIZED, metadata={"annotations": {"kubenode.io/leaving": "Replace"}}
            ),
            GroupInstanceState.RUNNING,
        ),
        (a_group_machine("chosen", INITIALIZED), GroupInstanceState.DELETING),
    ],
)
def test_instance_has_the_state_of_its_machine(machine: Any, state: GroupInstanceState) -> None:
    instance = describe_instance(a_group(scaleIn={"machines": ["chosen"]}), machine, "i")
    assert (instance.state, instance.error_code) == (state, "")


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        ({"conditions": [condition(QUOTA)]}, QUOTA, InstanceErrorClass.OUT_OF_RESOURCES),
        (
            {"phase": "Failed", "conditions": [condition("CreateTimeout")]},
            "CreateTimeout",
            InstanceErrorClass.OTHER,
        ),
        ({"phase": "Failed"}, "Failed", InstanceErrorClass.OTHER),
    ],
)
def test_instance_that_cannot_be_created_has_an_error(
    status: dict[str, Any], code: str, error: InstanceErrorClass
) -> None:
    instance = describe_instance(a_group(), a_group_machine("m", status), "i")
    assert instance.state is GroupInstanceState.CREATING
    assert (instance.error_code, instance.error_class) == (code, error)


def test_preserved_machine_does_not_belong_to_the_group() -> None:
    marks = {"annotations": {"kubenode.io/preserved": "2026-01-01T00:00:00Z"}}
    assert not is_counted(a_group_machine("m", metadata=marks))


# -- sizes ----------------------------------------------------------------------------------------


def refused(status: GroupStatus, call: Any, *arguments: Any) -> str:
    with pytest.raises(NodeGroupError) as caught:
        call(*arguments)
    assert caught.value.status is status
    return str(caught.value)


def test_size_is_raised_up_to_the_limit_of_the_set() -> None:
    room = ClassCapacity(remaining=10)
    assert raise_size(a_group(2), 3, a_group_class(), room, 2) == {"replicas": 5}
    message = refused(GroupStatus.OUT_OF_RANGE, raise_size, a_group(2), 4, a_group_class(), room, 2)
    assert "maxReplicas is 5" in message
    for delta in (0, -1):
        refused(
            GroupStatus.INVALID_ARGUMENT, raise_size, a_group(2), delta, a_group_class(), room, 2
        )


@pytest.mark.parametrize(
    ("room", "made", "status"),
    [
        (ClassCapacity("quota", QUOTA), 2, GroupStatus.RESOURCE_EXHAUSTED),
        (ClassCapacity("no class", "PreflightFailed"), 2, GroupStatus.FAILED_PRECONDITION),
        (ClassCapacity(remaining=1), 499, GroupStatus.RESOURCE_EXHAUSTED),
    ],
)
def test_size_is_not_raised_when_the_class_has_no_room(
    room: ClassCapacity, made: int, status: GroupStatus
) -> None:
    refused(status, raise_size, a_group(2), 2, a_group_class(), room, made)


def test_size_is_not_raised_without_a_class() -> None:
    room = ClassCapacity("there is no MachineClass large", "PreflightFailed")
    refused(GroupStatus.FAILED_PRECONDITION, raise_size, a_group(2), 1, None, room, 0)


def test_target_size_is_lowered_by_machines_that_do_not_exist() -> None:
    machines = [a_group_machine("a"), a_group_machine("gone"), a_group_machine("b")]
    group = a_group(4, scaleIn={"machines": ["gone"]})
    assert lower_size(group, -2, machines) == {"replicas": 2}
    message = refused(GroupStatus.FAILED_PRECONDITION, lower_size, group, -3, machines)
    assert "2 Machines exist" in message
    refused(GroupStatus.INVALID_ARGUMENT, lower_size, group, 1, machines)
    refused(GroupStatus.OUT_OF_RANGE, lower_size, a_group(4, low=3), -2, [])


# -- chosen machines ------------------------------------------------------------------------------


def test_one_write_names_the_machine_and_lowers_replicas() -> None:
    group = a_group(3, scaleIn={"machines": ["gone", "a"]})
    change = choose_machine(group, a_group_machine("b"), ["a", "b", "c"])
    assert change == {"replicas": 2, "scaleIn": {"machines": ["a", "b"]}}


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": "a"},
        {"name": "b", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        {"name": "b", "annotations": {"kubenode.io/leaving": "ScaleIn"}},
    ],
)
def test_machine_that_leaves_already_is_not_counted_twice(metadata: dict[str, Any]) -> None:
    group = a_group(3, scaleIn={"machines": ["a"]})
    assert choose_machine(group, a_group_machine("x", metadata=metadata), ["a", "b"]) == {}


def test_machine_is_kept_at_the_minimum_and_with_hands_off() -> None:
    machine = a_group_machine("a")
    refused(GroupStatus.OUT_OF_RANGE, choose_machine, a_group(2, low=2), machine, ["a"])
    kept = a_group_machine("a", metadata={"labels": {"kubenode.io/hands-off": ""}})
    message = refused(GroupStatus.FAILED_PRECONDITION, choose_machine, a_group(2), kept, ["a"])
    assert "kubenode.io/hands-off" in message


def test_set_without_autoscaling_is_no_group() -> None:
    refused(GroupStatus.ABSENT, limits_of, a_group(autoscaling=None))


def test_minimum_above_the_maximum_is_refused() -> None:
    with pytest.raises(ValueError, match="greater than maxReplicas"):
        a_group(low=3, high=2)
