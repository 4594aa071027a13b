"""The controller of Machines is killed at each of its writes, and all ends the same."""

from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta

import pytest
from support.fake_instances import FakeInstances
from support.machine_double import (
    MACHINE,
    NODE,
    Death,
    Double,
    a_class,
    a_node,
    imported,
    provisioned,
)

from kubenode.providers.instances import ErrorCode, InstanceError
from machine.machine.nodesync import LABELS_FROM_MACHINE

MOST_WRITES = 40


def importing() -> Double:
    double = Double()
    double.put(MACHINE, imported(nodeTemplate={"labels": {"pool": "a"}}))
    double.put(NODE, a_node())
    double.says(AgentReady="True")
    return double


def making() -> Double:
    double = Double()
    double.classes["small"] = a_class()
    double.put(MACHINE, provisioned())
    return double


async def whole(double: Double) -> None:
    """The host that was made has come."""
    await double.run()
    if NODE not in double.objects:
        double.put(NODE, a_node())
    double.says(AgentReady="True")
    await double.run()


@pytest.mark.parametrize("applied", [False, True])
async def test_dying_at_any_write_an_import_ends_running_and_synced(applied: bool) -> None:
    for number in range(1, MOST_WRITES):
        double = importing()
        came = await double.run_dying(Death(number, applied))
        await double.run()
        assert double.there.status.phase == "Running"
        node = double.objects[NODE]["metadata"]
        assert node["labels"] == {"pool": "a"}
        assert node["annotations"][LABELS_FROM_MACHINE] == "pool=a"
        if not came:
            return
    raise AssertionError("it never came to an end")


@pytest.mark.exhaustive
@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize(("blind", "lost"), [(0, 0), (3, 1)])
async def test_invariant_01_one_instance_however_often_it_dies_or_answers_are_lost(
    applied: bool, blind: int, lost: int
) -> None:
    for number in range(1, MOST_WRITES):
        double = making()
        double.cloud.blind, double.cloud.lose_reply = blind, lost
        came = await double.run_dying(Death(number, applied))
        await whole(double)
        assert double.cloud.made == ["u-m-1"]
        assert double.there.spec.provider_id == "fake:///u-m-1"
        assert double.there.status.phase == "Running"
        if not came:
            return
    raise AssertionError("it never came to an end")


async def prepared(make: Callable[[], Double]) -> Double:
    double = make()
    await whole(double)
    double.ask_to_delete()
    return double


@pytest.mark.parametrize("applied", [False, True])
async def test_invariant_02_dying_at_any_write_a_deletion_leaves_nothing_behind(
    applied: bool,
) -> None:
    start = await prepared(making)
    for number in range(1, MOST_WRITES):
        double = deepcopy(start)
        double.cloud.slow_end = 1
        came = await double.run_dying(Death(number, applied), looks=12)
        await double.run(looks=12)
        assert double.machine is None
        assert not double.cloud.instances and NODE not in double.objects
        assert not double.marks, "no cordon and no permit is left"
        if not came:
            return
    raise AssertionError("it never came to an end")


@pytest.mark.parametrize("applied", [False, True])
async def test_invariant_10_dying_at_any_write_a_release_leaves_the_node_as_it_was(
    applied: bool,
) -> None:
    start = await prepared(importing)
    for number in range(1, MOST_WRITES):
        double = deepcopy(start)
        came = await double.run_dying(Death(number, applied))
        await double.run()
        assert double.machine is None
        node = double.objects[NODE]["metadata"]
        assert not node.get("labels") and not node.get("annotations")
        if not came:
            return
    raise AssertionError("it never came to an end")


async def test_f28_a_provider_that_fails_for_ten_minutes_keeps_the_machine_until_it_is_gone() -> (
    None
):
    double = await prepared(making)
    double.cloud.failing = InstanceError("fake", ErrorCode.INTERNAL, "500")
    end = double.clock.now() + timedelta(minutes=10)
    controller = double.controller()
    while double.clock.now() < end:
        await double.run(controller, looks=1)
        assert double.there.status.phase == "Deleting"
        assert double.there.metadata.finalizers
    assert double.cloud.instances
    shown = double.there.status.condition("Deletable")
    assert shown is not None and "INTERNAL" in shown.message
    assert double.cloud.calls < 60, "no hammering"
    double.cloud.failing = None
    await double.run(controller, looks=40)
    assert double.machine is None and not double.cloud.instances


async def test_an_instance_that_a_lost_answer_made_is_found_before_the_machine_goes() -> None:
    """It was asked for, the answer was lost, `find` misses it, and the Machine is deleted."""
    double = making()
    double.cloud = FakeInstances(blind=2, lose_reply=1)
    await double.run(looks=1)
    double.ask_to_delete()
    await double.run(looks=30)
    assert double.machine is None
    assert double.cloud.made and not double.cloud.instances
