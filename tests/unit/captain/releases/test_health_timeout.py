"""A cluster that is not healthy in time pauses its release."""

from datetime import timedelta

import pytest
from support.release_world import (
    MemberDouble,
    ReleaseWorldDouble,
    make_pipeline,
    make_release,
    make_stage,
)

from kubenode.api.v1alpha1 import ReleasePipeline
from kubenode.api.v1alpha1.release import ClusterPhase, ReleasePhase, ReleaseReason, ReleaseState
from kubenode.cli.release_report import describe_release

MINUTE = timedelta(minutes=1)


def make_world(
    timeout: str = "10m", policy: str = "Pause"
) -> tuple[ReleaseWorldDouble, MemberDouble]:
    member = MemberDouble("t-0", "test")
    member.observing = False
    stage = make_stage("test", healthTimeout=timeout)
    world = ReleaseWorldDouble(
        make_pipeline(stage, make_stage("production"), policy=policy),
        [member, MemberDouble("p-0", "production")],
    )
    world.store.put(make_release())
    world.run(rounds=3)
    return world, member


def wait(world: ReleaseWorldDouble, minutes: int) -> ReleasePhase | None:
    world.clock.step(minutes * MINUTE)
    return world.reconcile().phase


@pytest.mark.parametrize("policy", ["Pause", "Rollback"])
def test_release_pauses_with_the_name_of_the_cluster_and_resumes(policy: str) -> None:
    world, member = make_world(policy=policy)
    assert wait(world, 9) is ReleasePhase.RUNNING
    assert wait(world, 1) is ReleasePhase.PAUSED
    status = world.store.get().status
    assert status.reason is ReleaseReason.HEALTH_TIMEOUT
    assert "stage test: not healthy within 10m: t-0: since 2026-" in status.message
    assert "NodeRemedier/rule" in status.message
    assert status.stages[0].clusters[0].phase is ClusterPhase.VERIFYING
    assert "`kubenode release resume release` begins" in "\n".join(
        describe_release(world.store.get())
    )
    for state in (ReleaseState.PAUSE, ReleaseState.RUN):
        world.store.set_spec(state=state)
        world.reconcile()
    assert wait(world, 9) is ReleasePhase.RUNNING
    member.observing = True
    assert world.run().phase is ReleasePhase.SUCCEEDED


def test_time_begins_anew_after_the_cluster_was_healthy() -> None:
    world, member = make_world()
    world.members["p-0"].observing = False
    wait(world, 9)
    member.observing = True
    world.run(rounds=4)
    assert world.store.get().status.stage == "production"
    assert wait(world, 9) is ReleasePhase.RUNNING


def test_time_in_which_a_cluster_does_not_answer_does_not_count() -> None:
    world, member = make_world()
    wait(world, 5)
    member.reachable = False
    wait(world, 0)
    assert wait(world, 60) is ReleasePhase.RUNNING
    member.reachable = True
    assert wait(world, 0) is ReleasePhase.RUNNING
    assert wait(world, 3) is ReleasePhase.RUNNING
    assert wait(world, 2) is ReleasePhase.PAUSED


def test_cluster_that_falls_ill_while_its_stage_bakes_pauses_the_release_too() -> None:
    member = MemberDouble("t-0", "test")
    stage = make_stage("test", healthTimeout="10m", bakeTime="1h")
    world = ReleaseWorldDouble(make_pipeline(stage), [member])
    world.store.put(make_release())
    world.run(rounds=4)
    member.observing = False
    assert wait(world, 1) is ReleasePhase.BAKING
    assert wait(world, 10) is ReleasePhase.PAUSED


def test_timeout_of_zero_is_none_and_the_default_is_a_day() -> None:
    world, _ = make_world("0s")
    assert wait(world, 10_000) is ReleasePhase.RUNNING
    pipeline = make_pipeline(make_stage("test")).to_dict()
    stage = ReleasePipeline.from_user(pipeline).spec.stages[0]
    assert stage.health_timeout == timedelta(hours=24)


def test_release_of_an_earlier_version_counts_from_its_first_observation() -> None:
    world, _ = make_world()
    status = world.store.get().status
    stage = status.stages[0]
    cluster = stage.clusters[0].model_copy(update={"not_healthy_since": None})
    stages = [stage.model_copy(update={"clusters": [cluster]}), *status.stages[1:]]
    old = status.model_copy(update={"stages": stages})
    world.store.put(world.store.get().model_copy(update={"status": old}))
    assert wait(world, 60) is ReleasePhase.RUNNING
    assert wait(world, 10) is ReleasePhase.PAUSED
