"""A release that is deleted: one in progress stays until a person decides about its clusters."""

from itertools import product

import pytest
from support.clock import T0
from support.release_world import (
    DeathError,
    Lifetime,
    MemberDouble,
    ReleaseWorldDouble,
    make_pipeline,
    make_release,
    make_rule,
    make_stage,
)

from captain.releases.deletion import FINALIZER, is_finished, plan_finalizers
from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import (
    ReleasePhase,
    ReleaseReason,
    ReleaseSnapshot,
    ReleaseState,
    ReleaseStatus,
)
from kubenode.cli.release_report import describe_release
from kubenode.runtime.release_control import find_objection

OTHER = "example.com/other"


def make_world() -> ReleaseWorldDouble:
    members = [MemberDouble("t-0", "test"), MemberDouble("p-0", "production")]
    pipeline = make_pipeline(make_stage("test"), make_stage("production"))
    world = ReleaseWorldDouble(pipeline, members)
    world.store.put(make_release())
    return world


def make_world_in_progress() -> ReleaseWorldDouble:
    """Return a release that has written to its first cluster, which is not healthy yet."""
    world = make_world()
    world.members["p-0"].put(make_rule("Approve"))
    world.run(rounds=2)
    assert world.members["t-0"].written
    return world


def test_release_in_progress_stays_when_deleted_and_changes_no_further_cluster() -> None:
    world = make_world_in_progress()
    world.store.delete()
    status = world.run()
    assert world.store.exists()
    assert (status.phase, status.reason) == (ReleasePhase.PAUSED, ReleaseReason.DELETED)
    assert "began to change 1 of 2 clusters" in status.message
    assert not world.members["p-0"].written
    text = "\n".join(describe_release(world.store.get()))
    assert "`kubenode release rollback release` restores" in text


@pytest.mark.parametrize("first", [ReleaseState.ROLLBACK, ReleaseState.ABORT])
@pytest.mark.parametrize("deleted_first", [True, False])
def test_decision_of_a_person_removes_a_deleted_release(
    first: ReleaseState, deleted_first: bool
) -> None:
    world = make_world_in_progress()
    if deleted_first:
        world.store.delete()
        world.run()
    world.store.set_spec(state=first)
    if not deleted_first:
        world.store.delete()
    world.run()
    world.reconcile()
    assert not world.store.exists()
    restored = first is ReleaseState.ROLLBACK
    assert (world.specs["t-0"] == {}) == restored


def test_deleted_release_is_not_resumed() -> None:
    world = make_world_in_progress()
    world.store.delete()
    world.store.set_spec(state=ReleaseState.PAUSE)
    world.run()
    world.store.set_spec(state=ReleaseState.RUN)
    assert world.run().reason is ReleaseReason.DELETED
    release = world.store.get()
    assert "roll it back or abort it" in find_objection(release, ReleaseState.RUN)
    assert not find_objection(release, ReleaseState.ABORT)


def test_release_that_has_ended_or_not_begun_is_deleted_at_once() -> None:
    world = make_world()
    assert world.run().phase is ReleasePhase.SUCCEEDED
    world.reconcile()
    assert world.store.get().metadata.finalizers == []
    world.store.delete()
    assert not world.store.exists()
    world = make_world()
    world.pipeline = None
    assert world.reconcile().phase is ReleasePhase.PENDING
    world.store.delete()
    assert world.store.exists()
    world.reconcile()
    assert not world.store.exists()


def test_release_of_an_earlier_version_gets_the_finalizer_in_the_middle() -> None:
    world = make_world_in_progress()
    release = world.store.get()
    metadata = release.metadata.model_copy(update={"finalizers": [OTHER]})
    world.store.put(release.model_copy(update={"metadata": metadata}))
    world.reconcile()
    assert world.store.get().metadata.finalizers == [OTHER, FINALIZER]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("ends_at", range(1, 7))
def test_deleted_release_that_rolls_back_is_restored_and_removed_after_any_death(
    ends_at: int, before: bool
) -> None:
    world = make_world_in_progress()
    world.store.delete()
    world.store.set_spec(state=ReleaseState.ROLLBACK)
    for life in (Lifetime(ends_at, before), Lifetime()):
        world.restart(life)
        try:
            world.run()
            world.reconcile()
        except DeathError:
            continue
    assert not world.store.exists()
    assert world.specs["t-0"] == {}


def make_deleted(
    phase: ReleasePhase | None, state: ReleaseState, *finalizers: str, started: bool, deleted: bool
) -> Release:
    release = make_release(state=state)
    snapshot = ReleaseSnapshot() if started else None
    metadata = release.metadata.model_copy(
        update={"finalizers": list(finalizers), "deletion_timestamp": T0 if deleted else None}
    )
    status = ReleaseStatus(phase=phase, snapshot=snapshot)
    return release.model_copy(update={"metadata": metadata, "status": status})


FINALIZERS = ((), (FINALIZER,), (OTHER,), (OTHER, FINALIZER))


@pytest.mark.parametrize("phase", [None, *ReleasePhase])
def test_finalizer_stays_exactly_while_something_is_left_to_do(phase: ReleasePhase | None) -> None:
    bools = (True, False)
    for case in product(ReleaseState, FINALIZERS, bools, bools):
        check_finalizers(phase, *case)


def check_finalizers(
    phase: ReleasePhase | None,
    state: ReleaseState,
    finalizers: tuple[str, ...],
    started: bool,
    deleted: bool,
) -> None:
    release = make_deleted(phase, state, *finalizers, started=started, deleted=deleted)
    ended = phase is not None and phase.ended
    returns = state is ReleaseState.ROLLBACK and phase is not ReleasePhase.ROLLED_BACK
    needed = returns if ended else started or not deleted
    assert is_finished(release) == (deleted and not needed)
    planned = plan_finalizers(release)
    after = list(finalizers) if planned is None else planned
    assert [each for each in after if each != FINALIZER] == [e for e in finalizers if e == OTHER]
    if FINALIZER in finalizers or not deleted:
        assert (FINALIZER in after) == needed
    else:
        assert planned is None
