"""What metrics and Events tell of releases."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.clock import T0
from support.release_world import (
    MemberDouble,
    ReleaseWorldDouble,
    make_pipeline,
    make_release,
    make_stage,
)

from captain.releases.events import RecordedReleases, list_messages
from captain.releases.metrics import MOST_RELEASES, ReleaseCollector
from kubenode.api.v1alpha1 import MemberCluster, Release
from kubenode.api.v1alpha1.release import (
    ClusterSkip,
    ReleasePhase,
    ReleaseReason,
    ReleaseState,
    ReleaseStatus,
    StageApprovalEntry,
)
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.recorder import EventRecorder

WAITING = "kubenode_captain_release_waiting_seconds"


def make_world(*members: str, policy: str = "Pause", **settings: Any) -> ReleaseWorldDouble:
    doubles = [MemberDouble(name, name.partition("-")[0]) for name in members]
    stages = {
        each.labels["stage"]: make_stage(each.labels["stage"], **settings) for each in doubles
    }
    world = ReleaseWorldDouble(make_pipeline(*stages.values(), policy=policy), doubles)
    world.store.put(make_release())
    return world


def make_member(name: str, phase: str) -> MemberCluster:
    raw = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": name},
        "spec": {"kubeconfigRef": name},
        "status": {"phase": phase},
    }
    return MemberCluster.model_validate(raw)


def collect(
    world: ReleaseWorldDouble, *members: MemberCluster, releases: list[Release] | None = None
) -> CollectorRegistry:
    registry = CollectorRegistry()
    shown = releases if releases is not None else [world.store.get()]
    registry.register(ReleaseCollector(lambda: shown, lambda: members, world.clock))
    return registry


def test_metrics_name_stage_clusters_and_reason_with_its_time() -> None:
    world = make_world("test-0", "production-0", approval="Before")
    world.store.set_spec(approvals=[StageApprovalEntry(stage="test", by="ann")])
    world.run(rounds=8)
    status = world.store.get().status
    assert status.phase is ReleasePhase.AWAITING_APPROVAL
    assert status.reason_since is not None
    world.clock.step(timedelta(hours=2))
    registry = collect(world, make_member("production-0", "Unreachable"))
    labels = {"release": "release"}

    def read(name: str, **more: str) -> float | None:
        return registry.get_sample_value(f"kubenode_captain_{name}", labels | more)

    assert (
        registry.get_sample_value("kubenode_captain_releases", {"phase": "AwaitingApproval"}) == 1
    )
    assert read("release_stage") == 2
    assert read("release_clusters", phase="Succeeded") == 1
    assert read("release_clusters", phase="Pending") == 1
    assert read("release_unreachable_clusters") == 1
    waited = read("release_waiting_seconds", reason="AwaitingApproval")
    assert waited == (world.clock.now() - status.reason_since).total_seconds() >= 7200
    assert read("release_paused", reason="AwaitingApproval") is None


def test_unreachable_cluster_that_a_person_skipped_is_not_counted_until_a_rollback() -> None:
    world = make_world("test-0", "test-1", maxConcurrency=2)
    world.members["test-0"].observing = False
    world.run(rounds=4)
    world.members["test-0"].reachable = False
    world.run(rounds=2)
    name, labels = "kubenode_captain_release_unreachable_clusters", {"release": "release"}
    lost = make_member("test-0", "Unreachable")
    assert collect(world).get_sample_value(name, labels) == 1
    world.members["test-1"].observing = False
    entry = ClusterSkip(cluster="test-0", why="it is replaced", by="ann")
    world.store.set_spec(skips=[entry])
    world.run(rounds=2)
    assert collect(world, lost).get_sample_value(name, labels) == 0
    world.store.set_spec(state=ReleaseState.ROLLBACK)
    world.run(rounds=3)
    assert collect(world, lost).get_sample_value(name, labels) == 1


def test_time_of_a_reason_begins_anew_with_the_stage() -> None:
    world = make_world("test-0", "production-0", approval="Before")
    times = []
    for stage in ("test", "production"):
        world.run(rounds=6)
        times.append(world.store.get().status.reason_since)
        world.run(rounds=6)
        assert world.store.get().status.reason_since == times[-1]
        given = world.store.get().spec.approvals
        world.store.set_spec(approvals=[*given, StageApprovalEntry(stage=stage, by="ann")])
    assert times[0] is not None and times[1] is not None
    assert times[0] < times[1]


def test_stopped_release_is_shown_as_paused_and_an_ended_one_in_its_phase_alone() -> None:
    world = make_world("test-0")
    world.members["test-0"].healthy = False
    world.run()
    registry = collect(world)
    labels = {"release": "release", "reason": "ClustersFailed"}
    assert registry.get_sample_value("kubenode_captain_release_paused", labels) == 1
    world.store.set_spec(state=ReleaseState.ABORT)
    world.run()
    registry = collect(world)
    assert registry.get_sample_value("kubenode_captain_release_paused", labels) is None
    assert registry.get_sample_value("kubenode_captain_releases", {"phase": "Aborted"}) == 1


def test_number_of_shown_releases_is_bounded_and_paused_ones_come_first() -> None:
    world = make_world("test-0")
    paused = ReleaseStatus(
        phase=ReleasePhase.PAUSED, reason=ReleaseReason.CLUSTERS_FAILED, reason_since=T0
    )
    releases = [make_release(name=f"a-{number}") for number in range(MOST_RELEASES)]
    releases.append(make_release(name="z").model_copy(update={"status": paused}))
    registry = collect(world, releases=releases)
    (family,) = [
        each for each in registry.collect() if each.name == "kubenode_captain_release_stage"
    ]
    names = [sample.labels["release"] for sample in family.samples]
    assert len(names) == MOST_RELEASES
    assert "z" in names


class RecorderDouble(EventRecorder):
    def __init__(self) -> None:
        clock = SystemClock()
        super().__init__(Kube(PlainTransport("http://127.0.0.1:1"), clock=clock), "test", clock)
        self.emitted: list[tuple[str, str, str]] = []

    async def emit(
        self, regarding: Mapping[str, str], type: str, reason: str, message: str
    ) -> None:
        assert regarding["kind"] == "Release"
        self.emitted.append((type, reason, message))


def test_stored_status_becomes_events_about_its_changes() -> None:
    world, recorder = make_world("test-0", policy="Rollback"), RecorderDouble()
    world.members["test-0"].healthy = False
    recorded = RecordedReleases(world.store, recorder)
    world.restart(store=recorded)
    world.run()
    kinds = [(type_, reason) for type_, reason, _ in recorder.emitted]
    assert kinds == [
        ("Normal", "StageStarted"),
        ("Normal", "Applying"),
        ("Warning", "ClusterFailed"),
        ("Warning", "RollingBack"),
        ("Normal", "RollingBack"),
        ("Normal", "RolledBack"),
    ]
    assert "test-0: Unhealthy: NodeRemedier/rule" in recorder.emitted[2][2]
    status = world.store.get().status
    asyncio.run(recorded.write_status(world.store.get(), status))
    assert len(recorder.emitted) == len(kinds)


@pytest.mark.parametrize("by_person", [True, False])
def test_stop_by_itself_warns_and_that_of_a_person_does_not(by_person: bool) -> None:
    world = make_world("test-0", "production-0")
    world.members["test-0"].healthy = by_person
    world.run(rounds=1)
    before = world.store.get().status
    if by_person:
        world.store.set_spec(state=ReleaseState.PAUSE)
    world.run()
    (message,) = [
        each for each in list_messages(before, world.store.get().status) if "Paused" in each.text
    ]
    assert message.warns is not by_person
