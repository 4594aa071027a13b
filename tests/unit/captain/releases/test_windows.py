"""No cluster starts outside the windows of its pipeline and its stage."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError
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

from captain.releases.model import ReleaseWorld
from captain.releases.stages import take_snapshot
from captain.releases.windows import find_closed_window
from kubenode.api.v1alpha1 import ReleasePipeline
from kubenode.api.v1alpha1.release import ReleasePhase, ReleaseReason, ReleaseState
from kubenode.cli.release_report import describe_release

Raw = dict[str, Any]
NOON, EVENING = {"from": "11:00", "to": "13:00"}, {"from": "18:00", "to": "20:00"}
NIGHT = {"from": "23:30", "to": "00:30", "timeZone": "Europe/Berlin"}


def make_windowed(*windows: Raw, stage: tuple[Raw, ...] = ()) -> ReleasePipeline:
    pipeline = make_pipeline(make_stage("test", windows=list(stage))).to_dict()
    pipeline["spec"]["windows"] = list(windows)
    return ReleasePipeline.from_user(pipeline)


def make_world(*windows: Raw, stage: tuple[Raw, ...] = ()) -> ReleaseWorldDouble:
    members = [MemberDouble("t-0", "test"), MemberDouble("t-1", "test")]
    world = ReleaseWorldDouble(make_windowed(*windows, stage=stage), members)
    world.store.put(make_release())
    return world


def decide(pipeline: ReleasePipeline, now: datetime, *, live: ReleasePipeline | None = None) -> str:
    world = ReleaseWorld({}, live, {}, "", now)
    return find_closed_window(pipeline.spec.stages[0], take_snapshot(pipeline, ""), world)


@pytest.mark.parametrize("in_stage", [True, False])
def test_release_waits_for_the_window_and_explains_until_when(in_stage: bool) -> None:
    world = make_world(stage=(EVENING,)) if in_stage else make_world(EVENING)
    status = world.run(rounds=10)
    assert (status.phase, status.reason) == (ReleasePhase.RUNNING, ReleaseReason.WINDOW_CLOSED)
    subject = "stage test" if in_stage else "the pipeline"
    assert f"no window of {subject} is open before 2026-01-01T18:00:00.000Z" in status.message
    assert "wait until a window opens" in "\n".join(describe_release(world.store.get()))
    assert not any(member.written for member in world.members.values())
    world.clock.step(T0.replace(hour=18) - world.clock.now())
    assert world.run().phase is ReleasePhase.SUCCEEDED


def test_started_cluster_goes_on_after_the_window_and_the_next_one_waits() -> None:
    world = make_world(NOON)
    world.members["t-0"].observing = False
    world.run(rounds=3)
    world.clock.step(timedelta(hours=2))
    world.members["t-0"].observing = True
    status = world.run(rounds=10)
    assert status.reason is ReleaseReason.WINDOW_CLOSED
    assert [each.phase for each in status.stages[0].clusters] == ["Succeeded", "Pending"]


def test_windows_are_closed_and_opened_during_a_release() -> None:
    world = make_world()
    world.members["t-0"].observing = False
    world.run(rounds=3)
    world.pipeline = make_windowed(EVENING)
    world.members["t-0"].observing = True
    assert world.run(rounds=10).reason is ReleaseReason.WINDOW_CLOSED
    assert not world.members["t-1"].written
    world.pipeline = make_windowed()
    assert world.run().phase is ReleasePhase.SUCCEEDED


def test_rollback_waits_for_no_window() -> None:
    world = make_world()
    original = world.specs
    world.run(rounds=3)
    assert world.specs != original
    world.pipeline = make_windowed(EVENING)
    world.store.set_spec(state=ReleaseState.ROLLBACK)
    assert world.run().phase is ReleasePhase.ROLLED_BACK
    assert world.specs == original


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("ends_at", range(1, 6))
def test_no_death_of_captain_starts_a_cluster_while_no_window_is_open(
    ends_at: int, before: bool
) -> None:
    world = make_world(EVENING)
    for life in (Lifetime(ends_at, before), Lifetime()):
        world.restart(life)
        try:
            world.run(rounds=10)
        except DeathError:
            continue
    assert not any(member.written for member in world.members.values())
    assert world.store.get().status.reason is ReleaseReason.WINDOW_CLOSED


def test_windows_form_a_union_in_their_own_zones_and_pipeline_and_stage_must_both_be_open() -> None:
    assert decide(make_windowed(), T0) == ""
    assert decide(make_windowed(EVENING, NOON), T0) == ""
    assert decide(make_windowed(NOON, stage=(NOON,)), T0) == ""
    both = make_windowed(EVENING, stage=(NIGHT,))
    assert decide(both, T0) == "no window of stage test is open before 2026-01-01T22:30:00.000Z"
    assert "the pipeline" in decide(both, T0.replace(hour=23))


def test_windows_are_those_of_the_live_pipeline_and_without_it_those_of_the_start() -> None:
    frozen, free = make_windowed(EVENING, stage=(EVENING,)), make_windowed()
    assert decide(frozen, T0, live=free) == ""
    assert decide(free, T0, live=frozen) != ""
    assert "the pipeline" in decide(make_windowed(EVENING), T0, live=None)
    renamed = make_pipeline(make_stage("other"))
    assert "stage test" in decide(make_windowed(stage=(EVENING,)), T0, live=renamed)


def test_window_of_an_unknown_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="is no time zone"):
        make_windowed({**NOON, "timeZone": "Mars/Olympus"})
