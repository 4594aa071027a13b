"""In a storm every fault gets its job before new jobs begin to write."""

from datetime import timedelta

from support.remedy_builders import RESTART, an_object
from support.remedy_world import FakeWorld

from kubenode.api.v1alpha1 import JobPhase
from remedy.job.controller import LONGEST_WAIT, WAIT_FOR_OTHERS


async def test_a_new_job_writes_nothing_while_others_wait_to_be_made() -> None:
    world = FakeWorld(an_object(RESTART))
    assert (
        await world.controller(lambda: True).reconcile(world.obj.metadata.name) == WAIT_FOR_OTHERS
    )
    assert world.writes == []


async def test_a_new_job_gives_way_for_a_bounded_time() -> None:
    world = FakeWorld(an_object(RESTART))
    world.clock.step(LONGEST_WAIT + timedelta(seconds=1))
    await world.controller(lambda: True).reconcile(world.obj.metadata.name)
    assert world.obj.status.phase is not JobPhase.PENDING


async def test_a_job_under_way_gives_way_to_nobody() -> None:
    world = FakeWorld(an_object(RESTART))
    await world.controller().reconcile(world.obj.metadata.name)
    before = len(world.writes)
    world.others()
    await world.controller(lambda: True).reconcile(world.obj.metadata.name)
    assert world.obj.status.phase is not JobPhase.PENDING
    assert len(world.writes) >= before
