"""Disruptions from their wish to their end, killed anywhere, with a Kube Defender in memory."""

from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest
from support.disruption_world import DisruptionWorld, Killed

from kubenode.api.cordon import CORDONED_BY, mark_of
from kubenode.api.v1alpha1 import Reason, Verdict
from kubenode.api.v1alpha1.machinework import ChangeClass
from kubenode.api.v1alpha1.permit import Holder, Operation
from machine.disruption.disruptions import NodeDisruptions
from machine.disruption.port import DisruptionHold, DisruptionRequest, DisruptionState, Prepared

SET = Holder(kind="MachineComponentSet", name="containerd", uid="u1")
OTHER = Holder(kind="MachineSet", name="online-a", uid="u2")
WISH = DisruptionRequest("n1", SET, Operation.ROLLOUT, ChangeClass.DRAIN)
RUNS = 20


async def ready(
    world: DisruptionWorld, disruptions: NodeDisruptions, wish: DisruptionRequest
) -> Prepared:
    for _ in range(RUNS):
        prepared = await disruptions.prepare(wish)
        if prepared.state is DisruptionState.READY:
            return prepared
        world.clock.step(timedelta(seconds=6))
    raise AssertionError(f"not ready after {RUNS} runs: {prepared}")


def marks(world: DisruptionWorld) -> str:
    return str(world.api.nodes["n1"]["metadata"]["annotations"].get(CORDONED_BY, ""))


async def test_a_node_is_drained_under_a_permit_and_given_back() -> None:
    world = DisruptionWorld()
    world.api.add_node("n1", pods=3)
    disruptions = world.process()
    prepared = await ready(world, disruptions, WISH)
    assert prepared.permit == world.defender.held["n1"].name
    assert world.api.pods == {} and len(world.api.evicted) == 3
    assert world.api.nodes["n1"]["spec"]["unschedulable"]
    assert marks(world) == mark_of(SET)
    assert await disruptions.end("n1", SET)
    assert not world.api.nodes["n1"]["spec"]["unschedulable"]
    assert marks(world) == "" and world.defender.held == {}
    told = [line.what for line in world.audit.lines]
    assert told == ["Cordon", "Evict", "Evict", "Evict", "Uncordon"]


async def test_a_restart_alone_neither_cordons_nor_drains() -> None:
    world = DisruptionWorld()
    world.api.add_node("n1", pods=3)
    prepared = await world.process().prepare(replace(WISH, class_=ChangeClass.RESTART))
    assert prepared.state is DisruptionState.READY and prepared.permit
    assert world.api.writes == 0


async def test_f19_a_foreign_cordon_outlives_us() -> None:
    world = DisruptionWorld()
    world.api.add_node("n1", pods=1, unschedulable=True)
    disruptions = world.process()
    await ready(world, disruptions, WISH)
    assert world.api.evicted == ["shop/n1-0"]
    assert await disruptions.end("n1", SET)
    assert world.api.nodes["n1"]["spec"]["unschedulable"]


async def test_cordon_of_a_job_is_shared_and_outlives_the_set_and_the_job() -> None:
    world = DisruptionWorld()
    world.api.add_node("n1", pods=1, unschedulable=True)
    node = world.api.nodes["n1"]
    node["metadata"].setdefault("annotations", {})[CORDONED_BY] = "n1-xid-12"
    disruptions = world.process()
    await ready(world, disruptions, WISH)
    assert marks(world) == f"n1-xid-12,{mark_of(SET)}"
    assert await disruptions.end("n1", SET)
    assert world.api.nodes["n1"]["spec"]["unschedulable"]
    assert marks(world) == "n1-xid-12"
    assert "Uncordon" not in [line.what for line in world.audit.lines]


async def test_f19_a_persons_uncordon_cancels_until_the_plan_is_ended() -> None:
    world = DisruptionWorld()
    world.api.add_node("n1", pods=1)
    world.api.refuses = {"shop/n1-0"}
    disruptions = world.process()
    assert (await disruptions.prepare(WISH)).state is DisruptionState.DRAINING
    world.api.schedulable("n1", True)
    for process in (disruptions, world.process()):
        failed = await process.prepare(WISH)
        assert (failed.state, failed.reason) == (
            DisruptionState.FAILED,
            DisruptionHold.PERSON_UNCORDONED,
        )
        assert not world.api.nodes["n1"]["spec"]["unschedulable"]
    assert await disruptions.end("n1", SET)
    assert (marks(world), world.defender.held) == ("", {})


async def test_a_budget_is_named_and_honoured() -> None:
    world = DisruptionWorld()
    world.api.add_node("n1", pods=2)
    world.api.refuses = {"shop/n1-0"}
    disruptions = world.process()
    for _ in range(5):
        prepared = await disruptions.prepare(WISH)
        assert (prepared.state, prepared.reason) == (
            DisruptionState.DRAINING,
            DisruptionHold.PDB_BLOCKED,
        )
        assert "shop/n1-0" in prepared.message and "PDB shop/few" in prepared.message
        world.clock.step(timedelta(minutes=1))
    world.clock.step(WISH.drain_timeout)
    assert (await disruptions.prepare(WISH)).reason == DisruptionHold.DRAIN_TIMEOUT
    assert set(world.api.pods) == {"shop/n1-0"}


async def test_a_refusal_is_not_asked_about_before_its_time_unless_kube_defender_calls() -> None:
    world = DisruptionWorld()
    world.api.add_node("n1")
    later = world.clock.now() + timedelta(seconds=30)
    world.defender.refuses = Verdict(
        allowed=False, reason=Reason.RATE_LIMIT, message="1 an hour", look_again_at=later
    )
    disruptions = world.process()
    for _ in range(3):
        prepared = await disruptions.prepare(WISH)
        assert (prepared.state, prepared.reason) == (DisruptionState.WAITING, "RateLimit")
        assert prepared.requeue_after == 30
    assert world.defender.asked == 1
    disruptions.leaves.wake(SET)
    await disruptions.prepare(WISH)
    assert world.defender.asked == 2
    world.clock.step(timedelta(seconds=30))
    await disruptions.prepare(WISH)
    assert world.defender.asked == 3


async def test_without_kube_defender_nothing_is_disrupted() -> None:
    world = DisruptionWorld()
    world.api.add_node("n1", pods=1)
    world.defender.down = True
    prepared = await world.process().prepare(WISH)
    assert (prepared.state, prepared.reason) == (
        DisruptionState.WAITING,
        DisruptionHold.DEFENDER_UNREACHABLE,
    )
    assert world.api.writes == 0


async def test_a_freeze_stops_the_drain_and_not_the_end() -> None:
    world = DisruptionWorld()
    world.api.add_node("n1", pods=2)
    world.api.refuses = {"shop/n1-0"}
    disruptions = world.process()
    assert (await disruptions.prepare(WISH)).state is DisruptionState.DRAINING
    world.frozen, world.api.refuses = "20 agents are silent", set()
    world.clock.step(timedelta(minutes=2))
    prepared = await disruptions.prepare(WISH)
    assert (prepared.state, prepared.reason) == (DisruptionState.WAITING, DisruptionHold.MELTDOWN)
    assert set(world.api.pods) == {"shop/n1-0"}
    assert await disruptions.end("n1", SET)
    assert not world.api.nodes["n1"]["spec"]["unschedulable"]


async def test_an_open_job_gets_the_node_unless_the_act_has_begun() -> None:
    world = DisruptionWorld()
    world.api.add_node("n1")
    disruptions = world.process()
    await ready(world, disruptions, WISH)
    world.job = "rj-1"
    begun = await disruptions.prepare(replace(WISH, begun=True))
    assert begun.state is DisruptionState.READY and "n1" in world.defender.held
    for process in (world.process(), disruptions):  # one that has forgotten, and one that has not
        prepared = await process.prepare(WISH)
        assert (prepared.state, prepared.reason) == (
            DisruptionState.WAITING,
            DisruptionHold.REMEDY_JOB_OPEN,
        )
        assert (marks(world), world.defender.held) == ("", {})
        assert not world.api.nodes["n1"]["spec"]["unschedulable"]


async def test_a_long_act_keeps_its_permit_alive() -> None:
    world = DisruptionWorld()
    world.api.add_node("n1")
    disruptions = world.process()
    await ready(world, disruptions, WISH)
    begun = replace(WISH, begun=True)
    for _ in range(12):
        world.clock.step(timedelta(minutes=10))
        assert (await disruptions.prepare(begun)).state is DisruptionState.READY
    assert world.defender.renewed >= 3 and world.defender.asked == 1


async def test_a_permit_that_was_taken_back_ends_the_drain() -> None:
    world = DisruptionWorld()
    world.api.add_node("n1", pods=1)
    world.api.refuses = {"shop/n1-0"}
    disruptions = world.process()
    assert (await disruptions.prepare(WISH)).state is DisruptionState.DRAINING
    world.defender.held.clear()
    world.defender.refuses = Verdict(allowed=False, reason=Reason.PAUSED, message="by ann")
    prepared = await disruptions.prepare(WISH)
    assert (prepared.state, prepared.reason) == (DisruptionState.WAITING, "Paused")
    assert (marks(world), world.api.nodes["n1"]["spec"]["unschedulable"]) == ("", False)


async def test_the_end_waits_for_kube_defender_and_repeats() -> None:
    world = DisruptionWorld()
    world.api.add_node("n1")
    disruptions = world.process()
    await ready(world, disruptions, WISH)
    world.defender.down = True
    assert not await disruptions.end("n1", SET)
    assert marks(world) == ""
    world.defender.down = False
    assert await disruptions.end("n1", SET)
    assert world.defender.held == {}
    asked, writes = len(world.defender.released), world.api.writes
    assert await disruptions.end("n1", SET)
    assert (len(world.defender.released), world.api.writes) == (asked, writes)


async def test_the_end_on_a_node_that_is_gone_gives_the_permit_back() -> None:
    world = DisruptionWorld()
    world.api.add_node("n1")
    await ready(world, world.process(), WISH)
    del world.api.nodes["n1"]
    assert await world.process().end("n1", SET)
    assert world.defender.held == {}
    assert (
        await world.process().prepare(WISH)
    ).state is DisruptionState.READY  # nothing to disrupt


async def test_invariant_05_of_two_holders_one_has_the_node() -> None:
    world = DisruptionWorld()
    world.api.add_node("n1")
    disruptions = world.process()
    await ready(world, disruptions, WISH)
    other = replace(WISH, holder=OTHER, operation=Operation.SCALE_IN)
    prepared = await disruptions.prepare(other)
    assert (prepared.state, prepared.reason) == (DisruptionState.WAITING, "NodeBusy")
    assert await disruptions.end("n1", OTHER)
    assert marks(world) == mark_of(SET)
    assert await disruptions.end("n1", SET)
    world.clock.step(timedelta(minutes=2))
    assert (await disruptions.prepare(other)).state is DisruptionState.READY


@pytest.mark.parametrize("applied", [False, True])
async def test_dying_at_any_write_ends_the_same(applied: bool) -> None:
    for die_at in count(1):
        world = DisruptionWorld()
        world.api.add_node("n1", pods=2)
        world.api.die_at, world.api.applied = die_at, applied
        await _lives_on(world)
        assert len(world.api.evicted) == 2
        assert (marks(world), world.defender.held) == ("", {})
        assert not world.api.nodes["n1"]["spec"]["unschedulable"]
        if world.api.writes < die_at:
            return  # every write had its turn


async def _lives_on(world: DisruptionWorld) -> None:
    """Prepare and end, each time the process dies with a new one."""
    for _ in range(3):
        try:
            disruptions = world.process()
            await ready(world, disruptions, WISH)
            if not await disruptions.end("n1", SET):
                raise AssertionError("not ended")
            return
        except (Killed, BaseExceptionGroup):  # evictions are asked for side by side
            continue
