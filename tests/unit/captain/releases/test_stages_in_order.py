"""A release goes through its stages in order, and stops where it should."""

from datetime import timedelta

import pytest
from support.clock import T0
from support.release_world import (
    MemberDouble,
    ReleaseWorldDouble,
    make_component,
    make_pipeline,
    make_release,
    make_rule,
    make_set,
    make_stage,
)

from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import (
    ClusterPhase,
    OnConflict,
    ReleasePhase,
    ReleaseReason,
    ReleaseState,
    StageApprovalEntry,
)

STAGES = ("test", "production")


def make_world(*names: str, policy: str = "Pause", **settings: object) -> ReleaseWorldDouble:
    """Members are named STAGE-NUMBER. `settings` are those of both stages."""
    members = [MemberDouble(name, name.partition("-")[0]) for name in names or DEFAULT]
    stages = [make_stage(stage, **settings) for stage in STAGES]
    return ReleaseWorldDouble(make_pipeline(*stages, policy=policy), members)


DEFAULT = ("test-1", "test-2", "production-1")


def phases(world: ReleaseWorldDouble) -> dict[str, str]:
    status = world.store.get().status
    return {c.name: str(c.phase) for stage in status.stages for c in stage.clusters}


def test_release_reaches_every_cluster_stage_by_stage() -> None:
    world = make_world()
    world.store.put(make_release(make_component(), make_set()))
    order: list[str] = []
    for _ in range(30):
        world.reconcile()
        order += [name for name, m in world.members.items() if m.objects and name not in order]
    assert order == ["test-1", "test-2", "production-1"]
    status = world.store.get().status
    assert status.phase is ReleasePhase.SUCCEEDED
    expected = {"MachineComponent/containerd-2.1.4", "MachineComponentSet/containerd"}
    assert all(set(member.objects) == expected for member in world.members.values())


def test_bad_payload_stops_at_the_first_cluster_of_the_first_stage() -> None:
    world = make_world()
    for member in world.members.values():
        member.healthy = False
    world.store.put(make_release())
    status = world.run()
    assert status.phase is ReleasePhase.PAUSED
    assert status.reason is ReleaseReason.CLUSTERS_FAILED
    assert "test-1 failed" in status.message
    assert [name for name, member in world.members.items() if member.written] == ["test-1"]


def test_failure_policy_rollback_restores_by_itself() -> None:
    world = make_world(policy="Rollback")
    world.members["test-2"].put(make_rule("Approve"))
    before = world.specs
    world.members["test-2"].healthy = False
    world.store.put(make_release(make_rule("Enforce")))
    status = world.run()
    assert (status.phase, status.rollback) == (
        ReleasePhase.ROLLED_BACK,
        ReleaseReason.CLUSTERS_FAILED,
    )
    assert world.specs == before


def test_resume_tries_failed_clusters_again() -> None:
    world = make_world()
    world.members["test-1"].healthy = False
    world.store.put(make_release())
    assert world.run().phase is ReleasePhase.PAUSED
    world.members["test-1"].healthy = True
    assert world.run().phase is ReleasePhase.PAUSED
    world.store.set_spec(state=ReleaseState.PAUSE)
    assert world.reconcile().reason is ReleaseReason.USER
    world.store.set_spec(state=ReleaseState.RUN)
    assert world.run().phase is ReleasePhase.SUCCEEDED


def test_retry_keeps_what_stood_there_before_the_first_try() -> None:
    world = make_world()
    world.members["test-1"].put(make_rule("Approve"))
    before = world.specs
    world.members["test-1"].healthy = False
    world.store.put(make_release(make_rule("Enforce")))
    world.run()
    world.store.set_spec(state=ReleaseState.PAUSE)
    world.reconcile()
    world.store.set_spec(state=ReleaseState.RUN)
    world.run()
    world.store.set_spec(state=ReleaseState.ROLLBACK)
    assert world.run().phase is ReleasePhase.ROLLED_BACK
    assert world.specs == before


def test_stage_waits_for_approval_and_names_the_command() -> None:
    world = make_world(approval="Before")
    world.store.put(make_release())
    status = world.run()
    assert status.phase is ReleasePhase.AWAITING_APPROVAL
    assert "kubenode release approve release test" in status.message
    assert not any(member.written for member in world.members.values())
    world.store.set_spec(approvals=[StageApprovalEntry(stage="test", by="ann")])
    status = world.run()
    assert status.stage == "production"
    assert not world.members["production-1"].written


def test_stage_bakes_before_the_next_begins() -> None:
    world = make_world(bakeTime="10m")
    world.store.put(make_release())
    status = world.run(rounds=60)
    assert (status.phase, status.stage) == (ReleasePhase.BAKING, "test")
    assert not world.members["production-1"].written
    world.clock.step(timedelta(minutes=6))
    assert world.run().stage == "production"


def test_cluster_that_falls_ill_while_its_stage_bakes_stops_the_release() -> None:
    world = make_world(bakeTime="10m")
    world.store.put(make_release())
    world.run(rounds=20)
    world.members["test-2"].healthy = False
    status = world.run()
    assert status.reason is ReleaseReason.CLUSTERS_FAILED
    assert not world.members["production-1"].written


def test_object_that_others_change_is_shown_as_drift() -> None:
    world = make_world(bakeTime="10m")
    world.store.put(make_release(make_rule("Enforce")))
    world.run(rounds=20)
    world.members["test-1"].put(make_rule("Off"))
    status = world.reconcile()
    (cluster,) = (c for c in status.stages[0].clusters if c.name == "test-1")
    assert cluster.reason is ReleaseReason.DRIFTED
    assert cluster.drift == ["NodeRemedier/rule was changed at spec.mode"]


def test_unreachable_cluster_is_waited_for_and_named() -> None:
    world = make_world()
    world.members["test-2"].reachable = False
    world.store.put(make_release())
    status = world.run()
    assert status.phase is ReleasePhase.RUNNING
    assert status.reason is ReleaseReason.CLUSTER_UNREACHABLE
    assert "test-2" in status.message
    world.members["test-2"].reachable = True
    assert world.run().phase is ReleasePhase.SUCCEEDED


@pytest.mark.parametrize(
    ("policy", "phase", "ends"),
    [
        ("Skip", ClusterPhase.SKIPPED, ReleasePhase.SUCCEEDED),
        ("Fail", ClusterPhase.FAILED, ReleasePhase.PAUSED),
    ],
)
def test_policy_decides_about_an_unreachable_cluster_after_two_minutes(
    policy: str, phase: ClusterPhase, ends: ReleasePhase
) -> None:
    world = make_world(onUnreachable=policy)
    world.members["test-2"].reachable = False
    world.store.put(make_release())
    world.run(rounds=20, step=5)
    assert phases(world)["test-2"] == "Pending"
    status = world.run()
    assert phases(world)["test-2"] == phase
    assert status.phase is ends


def test_clusters_are_ordered_by_label_and_change_at_most_so_many_at_once() -> None:
    names = [f"test-{n}" for n in range(1, 5)]
    world = make_world(*names, "production-1", sortBy="order", maxConcurrency="50%")
    for name, order in zip(names, ("10", "9", "x", ""), strict=True):
        world.members[name].labels["order"] = order
    world.store.put(make_release())
    world.reconcile()
    world.reconcile()
    world.reconcile()
    written = [name for name, member in world.members.items() if member.written]
    assert written == ["test-1", "test-2"]
    clusters = world.store.get().status.stages[0].clusters
    assert [c.name for c in clusters] == ["test-2", "test-1", "test-3", "test-4"]


def test_clusters_that_come_and_go_are_listed_and_not_changed() -> None:
    world = make_world(bakeTime="10m")
    world.store.put(make_release())
    world.run(rounds=3)
    world.members["test-3"] = MemberDouble("test-3", "test")
    del world.members["production-1"]
    status = world.run()
    assert status.snapshot is not None
    assert (status.snapshot.joined, status.snapshot.departed) == (["test-3"], ["production-1"])
    assert not world.members["test-3"].written
    world.clock.step(timedelta(minutes=30))
    assert world.run().phase in (ReleasePhase.SUCCEEDED, ReleasePhase.BAKING)
    assert phases(world)["production-1"] == "Skipped"


def test_release_waits_for_a_pipeline_and_says_what_is_wrong_with_it() -> None:
    world = make_world("test-1")
    world.store.put(make_release())
    status = world.reconcile()
    assert status.reason is ReleaseReason.PIPELINE_INVALID
    assert "no MemberCluster matches the selector of stage production" in status.message
    world.pipeline = None
    assert world.reconcile().reason is ReleaseReason.PIPELINE_MISSING


def test_digest_that_does_not_fit_the_payload_ends_the_release_unwritten() -> None:
    world = make_world()
    world.store.put(make_release(digest="sha256:" + "0" * 64))
    status = world.run(rounds=3)
    assert (status.phase, status.reason) == (ReleasePhase.FAILED, ReleaseReason.DIGEST_MISMATCH)
    assert not any(member.written for member in world.members.values())


def test_payload_that_changes_on_its_way_stops_the_release() -> None:
    world = make_world(bakeTime="10m")
    world.store.put(make_release(make_rule("DryRun")))
    world.run(rounds=3)
    world.store.set_spec(payload=make_release(make_rule("Enforce")).spec.payload)
    status = world.run()
    assert (status.phase, status.reason) == (ReleasePhase.PAUSED, ReleaseReason.DIGEST_MISMATCH)
    assert "Enforce" not in str(world.specs)


def test_invalid_object_of_the_payload_is_named_and_not_applied() -> None:
    rule = make_rule()
    del rule["spec"]["nodes"]
    world = make_world()
    world.store.put(make_release(rule))
    status = world.reconcile()
    assert (status.phase, status.reason) == (ReleasePhase.FAILED, ReleaseReason.PAYLOAD_INVALID)
    assert status.message.startswith("NodeRemedier/rule: spec.nodes: ")


def later(release: Release, minutes: int) -> Release:
    at = T0 + timedelta(minutes=minutes)
    metadata = release.metadata.model_copy(update={"creation_timestamp": at})
    return release.model_copy(update={"metadata": metadata})


def test_later_release_of_the_same_object_waits_for_the_first() -> None:
    world = make_world(bakeTime="1m")
    world.store.put(later(make_release(make_rule("Enforce"), name="b"), 2))
    world.store.put(later(make_release(make_rule("DryRun"), name="a"), 1))
    status = world.run("b", rounds=2)
    assert status.reason is ReleaseReason.PAYLOAD_CONFLICT
    assert status.message == "release a changes NodeRemedier/rule and has not ended"
    assert world.run("a").phase is ReleasePhase.SUCCEEDED
    assert world.run("b").phase is ReleasePhase.SUCCEEDED
    world.store.set_spec("a", state=ReleaseState.ROLLBACK)
    status = world.run("a")
    assert status.phase is ReleasePhase.SUCCEEDED
    assert status.message == "release b changed NodeRemedier/rule since: roll it back first"
    world.store.set_spec("b", state=ReleaseState.ROLLBACK)
    assert world.run("b").phase is ReleasePhase.ROLLED_BACK
    assert "DryRun" in str(world.specs)
    assert world.run("a").phase is ReleasePhase.ROLLED_BACK
    assert not any(world.specs.values())


def test_releases_of_different_objects_do_not_wait() -> None:
    world = make_world(bakeTime="1h")
    world.store.put(make_release(make_rule(name="a"), name="a"))
    world.store.put(make_release(make_rule(name="b"), name="b"))
    assert world.run("a").phase is ReleasePhase.BAKING
    assert world.run("b").phase is ReleasePhase.BAKING


def test_field_of_another_manager_is_shown_and_not_taken() -> None:
    world = make_world()
    world.members["test-1"].conflict = 'conflict with "argocd" using v1alpha1: .spec.mode'
    world.store.put(make_release())
    status = world.run()
    assert (status.phase, status.reason) == (ReleasePhase.RUNNING, ReleaseReason.APPLY_CONFLICT)
    assert 'conflict with "argocd"' in status.message
    world.store.set_spec(on_conflict=OnConflict.FORCE)
    assert world.run().phase is ReleasePhase.SUCCEEDED


def test_field_that_a_rollback_of_our_own_wrote_is_taken() -> None:
    world = make_world()
    conflict = 'Apply failed with 1 conflict: conflict with "kubenode-captain" using v1: .spec.mode'
    world.members["test-1"].conflict = conflict
    world.store.put(make_release())
    assert world.run().phase is ReleasePhase.SUCCEEDED


def test_refused_write_fails_the_cluster() -> None:
    world = make_world()
    world.members["test-1"].refusal = "spec.mode: no such mode"
    world.store.put(make_release())
    status = world.run()
    assert status.reason is ReleaseReason.CLUSTERS_FAILED
    assert "no such mode" in status.message


@pytest.mark.parametrize("state", [ReleaseState.PAUSE, ReleaseState.ABORT])
def test_paused_and_aborted_release_write_nothing(state: ReleaseState) -> None:
    world = make_world()
    world.store.put(make_release())
    world.run(rounds=3)
    written = [member.written[:] for member in world.members.values()]
    world.store.set_spec(state=state)
    world.run()
    assert [member.written for member in world.members.values()] == written


def test_aborted_release_can_be_rolled_back() -> None:
    world = make_world()
    before = world.specs
    world.store.put(make_release())
    world.run(rounds=3)
    world.store.set_spec(state=ReleaseState.ABORT)
    assert world.reconcile().phase is ReleasePhase.ABORTED
    world.store.set_spec(state=ReleaseState.ROLLBACK)
    assert world.run().phase is ReleasePhase.ROLLED_BACK
    assert world.specs == before


def test_rollback_waits_for_an_unreachable_cluster_and_restores_the_others() -> None:
    world = make_world()
    world.store.put(make_release())
    world.run()
    world.members["production-1"].reachable = False
    world.store.set_spec(state=ReleaseState.ROLLBACK)
    status = world.run()
    assert status.phase is ReleasePhase.ROLLING_BACK
    assert "production-1" in status.message
    assert not world.members["test-1"].objects
    world.members["production-1"].reachable = True
    assert world.run().phase is ReleasePhase.ROLLED_BACK
    assert not world.members["production-1"].objects


def test_rollback_keeps_the_stop_of_a_person_in_a_cluster() -> None:
    world = make_world()
    world.members["test-1"].put(make_set("containerd-1"))
    world.store.put(make_release(make_set("containerd-2")))
    world.run()
    stopped = make_set("containerd-2")
    stopped["spec"]["paused"] = True
    world.members["test-1"].put(stopped)
    world.store.set_spec(state=ReleaseState.ROLLBACK)
    world.run()
    spec = world.members["test-1"].specs["MachineComponentSet/containerd"]
    assert (spec["component"], spec["paused"]) == ("containerd-1", True)
