"""The evidence of a stop stays when the clusters that caused it are restored or tried again."""

import pytest
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
    MOST_FAILURES,
    ReleasePhase,
    ReleaseReason,
    ReleaseState,
)
from kubenode.cli.release_report import describe_release


def make_world(policy: str, count: int = 1) -> ReleaseWorldDouble:
    members = [MemberDouble(f"t-{number:02}", "test") for number in range(count)]
    for member in members:
        member.healthy = False
    stage = make_stage("test", maxConcurrency="100%", maxFailures="100%", healthTimeout="5m")
    world = ReleaseWorldDouble(make_pipeline(stage, policy=policy), members)
    world.store.put(make_release())
    return world


def test_evidence_is_explained_after_an_automatic_rollback() -> None:
    world = make_world("Rollback")
    assert world.run().phase is ReleasePhase.ROLLED_BACK
    (failure,) = world.store.get().status.failures
    assert (failure.stage, failure.cluster) == ("test", "t-00")
    assert failure.reason is ReleaseReason.UNHEALTHY
    text = "\n".join(describe_release(world.store.get()))
    assert "it last stopped by itself at 2026-01-01T12:00" in text
    assert "stage test, t-00: Unhealthy: NodeRemedier/rule" in text


@pytest.mark.parametrize("state", [ReleaseState.ROLLBACK, ReleaseState.RUN])
def test_evidence_stays_after_the_decision_of_a_person(state: ReleaseState) -> None:
    world = make_world("Pause")
    world.run()
    assert "it last stopped" not in "\n".join(describe_release(world.store.get()))
    world.members["t-00"].healthy = True
    for each in (ReleaseState.PAUSE, state):
        world.store.set_spec(state=each)
        world.run()
    assert world.store.get().status.phase in (ReleasePhase.ROLLED_BACK, ReleasePhase.SUCCEEDED)
    assert "t-00: Unhealthy" in "\n".join(describe_release(world.store.get()))


def test_evidence_of_a_cluster_that_was_not_healthy_in_time_is_stored() -> None:
    world = make_world("Pause")
    world.members["t-00"].healthy, world.members["t-00"].observing = True, False
    world.run(rounds=100)
    (failure,) = world.store.get().status.failures
    assert failure.reason is ReleaseReason.NOT_HEALTHY_YET


def test_evidence_is_bounded_and_that_of_the_next_stop_replaces_it() -> None:
    world = make_world("Pause", MOST_FAILURES + 5)
    world.run()
    first = world.store.get().status.failures
    assert len(first) == MOST_FAILURES
    for state in (ReleaseState.PAUSE, ReleaseState.RUN):
        world.store.set_spec(state=state)
        world.run()
    second = world.store.get().status.failures
    assert len(second) == MOST_FAILURES
    assert second[0].at > first[0].at


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("ends_at", range(1, 11))
def test_evidence_survives_the_death_of_captain(ends_at: int, before: bool) -> None:
    world = make_world("Rollback")
    for life in (Lifetime(ends_at, before), Lifetime()):
        world.restart(life)
        try:
            world.run()
        except DeathError:
            continue
    status = world.store.get().status
    assert status.phase is ReleasePhase.ROLLED_BACK
    assert [each.cluster for each in status.failures] == ["t-00"]
