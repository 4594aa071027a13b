"""A person leaves a cluster out of a release."""

import pytest
from support.clock import T0
from support.release_world import (
    DeathError,
    Lifetime,
    MemberDouble,
    ReleaseWorldDouble,
    make_pipeline,
    make_release,
    make_stage,
)

from kubenode.api.v1alpha1.release import (
    ClusterPhase,
    ClusterSkip,
    ReleasePhase,
    ReleaseReason,
    ReleaseState,
)
from kubenode.cli.release_report import describe_release
from kubenode.cli.release_skip import find_skip_objection


def make_world(**settings: object) -> ReleaseWorldDouble:
    names = ("test-0", "test-1", "production-0")
    members = [MemberDouble(name, name.partition("-")[0]) for name in names]
    stages = [make_stage("test", **settings), make_stage("production")]
    world = ReleaseWorldDouble(make_pipeline(*stages), members)
    world.store.put(make_release())
    return world


def skip(world: ReleaseWorldDouble, *names: str) -> None:
    given = [ClusterSkip(cluster=name, why="it is replaced", by="ann", at=T0) for name in names]
    world.store.set_spec(skips=given)


def find_phase(world: ReleaseWorldDouble, name: str) -> ClusterPhase:
    stages = world.store.get().status.stages
    return next(each.phase for stage in stages for each in stage.clusters if each.name == name)


@pytest.mark.parametrize("lever", ["reachable", "observing"])
def test_release_goes_on_without_a_skipped_cluster_and_explains_it(lever: str) -> None:
    world = make_world()
    setattr(world.members["test-1"], lever, False)
    world.run(rounds=10)
    assert world.store.get().status.stage == "test"
    skip(world, "test-1")
    assert world.run().phase is ReleasePhase.SUCCEEDED
    assert find_phase(world, "test-1") is ClusterPhase.SKIPPED
    text = "\n".join(describe_release(world.store.get()))
    assert "test-1: Skipped, User: skipped by ann at 2026-" in text
    assert "it is replaced" in text


def test_skipped_cluster_of_a_later_stage_is_never_written_to() -> None:
    world = make_world()
    world.members["production-1"] = MemberDouble("production-1", "production")
    skip(world, "production-0")
    assert world.run().phase is ReleasePhase.SUCCEEDED
    assert not world.members["production-0"].written
    assert world.members["production-1"].written


def test_failed_cluster_is_skipped_and_not_tried_again() -> None:
    world = make_world()
    world.members["test-0"].healthy = False
    assert world.run().reason is ReleaseReason.CLUSTERS_FAILED
    written = list(world.members["test-0"].written)
    skip(world, "test-0")
    assert world.run().phase is ReleasePhase.PAUSED
    for state in (ReleaseState.PAUSE, ReleaseState.RUN):
        world.store.set_spec(state=state)
        world.reconcile()
    assert world.run().phase is ReleasePhase.SUCCEEDED
    assert world.members["test-0"].written == written


def test_skipped_cluster_counts_neither_as_proven_nor_as_failed() -> None:
    world = make_world(maxFailures=2)
    world.members["test-1"].healthy = False
    skip(world, "test-0")
    status = world.run()
    assert status.reason is ReleaseReason.CLUSTERS_FAILED
    assert "test-1 failed" in status.message


def test_stage_of_skipped_clusters_proves_nothing_and_stops_the_release() -> None:
    world = make_world()
    skip(world, "test-0", "test-1")
    status = world.run()
    assert (status.phase, status.reason) == (ReleasePhase.PAUSED, ReleaseReason.STAGE_UNPROVEN)
    assert not world.members["production-0"].written
    assert "a pipeline without this stage" in "\n".join(describe_release(world.store.get()))


def test_rollback_restores_a_skipped_cluster_that_was_written_to() -> None:
    world = make_world()
    original = world.specs
    world.members["test-0"].observing = False
    world.run(rounds=4)
    assert world.specs != original
    skip(world, "test-0")
    world.run(rounds=3)
    world.store.set_spec(state=ReleaseState.ROLLBACK)
    assert world.run().phase is ReleasePhase.ROLLED_BACK
    assert world.specs == original


def test_skip_changes_no_cluster_of_a_stage_that_succeeded_and_none_in_a_rollback() -> None:
    world = make_world()
    world.members["production-0"].observing = False
    world.run(rounds=8)
    skip(world, "test-0")
    world.run(rounds=2)
    assert find_phase(world, "test-0") is ClusterPhase.SUCCEEDED
    world.store.set_spec(state=ReleaseState.ROLLBACK)
    skip(world, "test-0", "production-0")
    assert world.run().phase is ReleasePhase.ROLLED_BACK
    assert find_phase(world, "production-0") is ClusterPhase.ROLLED_BACK


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("ends_at", range(1, 10))
def test_release_with_a_skip_succeeds_after_any_death(ends_at: int, before: bool) -> None:
    world = make_world()
    world.members["test-0"].observing = False
    world.run(rounds=3)
    skip(world, "test-0")
    for life in (Lifetime(ends_at, before), Lifetime()):
        world.restart(life)
        try:
            world.run()
        except DeathError:
            continue
    assert world.store.get().status.phase is ReleasePhase.SUCCEEDED
    assert find_phase(world, "test-0") is ClusterPhase.SKIPPED


def test_command_refuses_a_skip_without_effect() -> None:
    world = make_world()
    release = world.store.get()
    assert "it has not started" in find_skip_objection(release, "test-0")
    world.members["test-1"].observing = False
    world.run(rounds=8)
    release = world.store.get()
    assert find_skip_objection(release, "test-1") == ""
    assert "it has no cluster other" in find_skip_objection(release, "other")
    assert "is the last of stage production" in find_skip_objection(release, "production-0")
    skip(world, "test-1")
    assert "is skipped already" in find_skip_objection(world.store.get(), "test-1")
    assert "is the last of stage test" in find_skip_objection(world.store.get(), "test-0")
    world.members["production-0"].observing = False
    world.run(rounds=8)
    assert "has succeeded" in find_skip_objection(world.store.get(), "test-0")
    world.store.set_spec(state=ReleaseState.ROLLBACK)
    assert "it rolls back" in find_skip_objection(world.store.get(), "production-0")
    world.run()
    assert "it has ended" in find_skip_objection(world.store.get(), "production-0")
