"""A release starts no cluster while repairs need the budget of Kube Defender."""

from typing import Any

import pytest
from support.release_world import (
    MemberDouble,
    ReleaseWorldDouble,
    make_pipeline,
    make_release,
    make_stage,
)

from captain.releases.health import list_open_breakers
from kubenode.api.v1alpha1.release import ReleasePhase, ReleaseReason
from kubenode.cli.release_report import describe_release


def make_world(policy: str = "Wait") -> tuple[ReleaseWorldDouble, MemberDouble, MemberDouble]:
    first, second = MemberDouble("t-0", "test"), MemberDouble("t-1", "test")
    pipeline = make_pipeline(make_stage("test", onRepairs=policy))
    world = ReleaseWorldDouble(pipeline, [first, second])
    world.store.put(make_release())
    return world, first, second


@pytest.mark.parametrize("state", ["Open", "HalfOpen"])
def test_breaker_of_the_next_cluster_holds_its_start_with_the_reason(state: str) -> None:
    world, first, second = make_world()
    second.breaker = state
    status = world.run()
    assert (status.phase, status.reason) == (
        ReleasePhase.RUNNING,
        ReleaseReason.REPAIRS_NEED_BUDGET,
    )
    assert f"t-1: DefenderPolicy/limits: breaker cluster is {state}: x" in status.message
    assert first.written and not second.written
    assert "wait until the repairs have ended" in "\n".join(describe_release(world.store.get()))
    second.breaker = "Closed"
    assert world.run().phase is ReleasePhase.SUCCEEDED
    assert all(each.reason is None for each in world.store.get().status.stages[0].clusters)


def test_breaker_of_a_cluster_that_has_the_release_holds_the_next_one() -> None:
    world, first, second = make_world()
    world.run(rounds=2)
    first.breaker = "Open"
    assert world.run().reason is ReleaseReason.REPAIRS_NEED_BUDGET
    assert first.written and not second.written


def test_pipeline_that_does_not_say_so_ignores_breakers() -> None:
    world, first, second = make_world("Ignore")
    first.breaker = second.breaker = "Open"
    assert world.run().phase is ReleasePhase.SUCCEEDED


@pytest.mark.parametrize(
    "policy",
    [
        {"metadata": {"name": "limits"}, "status": {"breaker": "none"}},
        {"metadata": 1},
        {},
        "x",
        None,
    ],
)
def test_policy_that_cannot_be_read_counts_as_an_open_breaker(policy: Any) -> None:
    assert list_open_breakers([policy]) == ["a DefenderPolicy cannot be read"]
    assert list_open_breakers([{"metadata": {"name": "limits"}}]) == []
