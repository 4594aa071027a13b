"""Harm that a rule does, and the size of what a release stores."""

from typing import Any

import pytest
from support.release_world import (
    MemberDouble,
    ReleaseWorldDouble,
    make_component,
    make_pipeline,
    make_release,
    make_rule,
    make_stage,
)

from kubenode.api.v1alpha1.release import ReleasePhase, ReleaseReason

ETCD_BYTES = 1_500_000


def make_world(count: int, **settings: Any) -> ReleaseWorldDouble:
    members = [MemberDouble(f"c-{n}", "test") for n in range(count)]
    return ReleaseWorldDouble(make_pipeline(make_stage("test", **settings)), members)


def test_rule_with_new_relapses_stops_the_release_and_older_ones_do_not_count() -> None:
    world = make_world(1, bakeTime="10m")
    member = world.members["c-0"]
    member.relapsed = 3
    world.store.put(make_release())
    assert world.run(rounds=10).phase is ReleasePhase.BAKING
    member.relapsed = 4
    status = world.run()
    assert status.stages[0].clusters[0].reason is ReleaseReason.HARMFUL
    assert "1 new jobs for a relapse" in status.message


@pytest.mark.exhaustive
def test_release_of_many_objects_to_hundreds_of_clusters_fits_into_etcd() -> None:
    world = make_world(300, maxConcurrency="100%")
    payload = [make_component(f"2.1.{n}") for n in range(32)]
    for member in world.members.values():
        for obj in payload:
            member.put(obj)
        member.healthy = False
    world.store.put(make_release(*payload))
    status = world.run()
    assert status.reason is ReleaseReason.CLUSTERS_FAILED
    assert len(status.previous) == 1
    assert len(world.store.get().model_dump_json(by_alias=True)) < ETCD_BYTES


def test_previous_contents_that_do_not_fit_stop_the_release_before_it_writes() -> None:
    world = make_world(1)
    large = make_rule("Approve")
    large["spec"]["notes"] = "x" * 300_000
    world.members["c-0"].put(large)
    world.store.put(make_release(make_rule("DryRun")))
    status = world.run()
    assert (status.phase, status.reason) == (
        ReleasePhase.PAUSED,
        ReleaseReason.PREVIOUS_TOO_LARGE,
    )
    assert not world.members["c-0"].written
