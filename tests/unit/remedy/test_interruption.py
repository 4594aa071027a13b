"""The controller dies at any write, before or after it took effect, and a new one goes on."""

from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from support.remedy_builders import DRAIN, RESTART, TELL, a_job, an_object
from support.remedy_world import FakeWorld, closed, needs_human

from kubenode.api.v1alpha1 import JobPhase
from remedy.job.store import status_patch

LABELS = {
    "name": "mark",
    "steps": [
        {"label": {"key": "kubenode.io/suspect-seen", "value": "yes"}},
        {"annotate": {"key": "kubenode.io/suspect-why", "value": "test"}},
        {"wait": {"for": "90s"}},
        *DRAIN["steps"],
        {"notify": {"message": "repaired"}},
    ],
    "verify": DRAIN["verify"],
}


def at_rest(world: FakeWorld) -> bool:
    return closed(world) or needs_human(world)


@pytest.mark.exhaustive
@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize(
    ("rungs", "needs"), [((DRAIN,), 1), ((RESTART, DRAIN), 2), ((TELL, DRAIN), 1), ((LABELS,), 1)]
)
async def test_dying_at_any_write_ends_the_same_with_no_act_twice(
    rungs: tuple[dict[str, Any], ...], needs: int, applied: bool
) -> None:
    for die_at in count(1):
        world = FakeWorld(an_object(*rungs), die_at=die_at, applied=applied, needs=needs)
        await world.run(at_rest)
        assert world.obj.status.phase is JobPhase.SUCCEEDED, world.writes
        assert len(world.restarts) == needs
        assert sorted(world.evictions) == ["shop/a", "shop/b"]
        assert world.cordons == 1
        assert (world.unschedulable, world.annotations.get("kubenode.io/cordoned-by")) == (
            False,
            None,
        )
        assert world.permits == {}
        assert len(world.notices) == len(set(world.notices))
        if len(world.writes) < die_at:
            return  # every write had its turn


@pytest.mark.parametrize("applied", [False, True])
async def test_dying_while_giving_up_keeps_the_cordon_and_frees_the_permit(applied: bool) -> None:
    for die_at in count(1):
        world = FakeWorld(an_object(DRAIN), die_at=die_at, applied=applied, agent_works=False)
        await world.run(at_rest)
        assert world.obj.status.phase is JobPhase.NEEDS_HUMAN
        assert world.unschedulable and world.cordons == 1
        assert world.permits == {}
        if len(world.writes) < die_at:
            return


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.exhaustive
async def test_dying_while_a_release_gives_up_leaves_nothing_behind(applied: bool) -> None:
    for die_at in count(1):
        obj = an_object(DRAIN, onGiveUp="Release")
        world = FakeWorld(obj, die_at=die_at, applied=applied, agent_works=False)
        await world.run(at_rest)
        assert world.obj.status.phase is JobPhase.FAILED
        assert not world.unschedulable and world.permits == {}
        if len(world.writes) < die_at:
            return


async def test_every_time_of_the_story_is_told() -> None:
    world = FakeWorld(an_object(DRAIN))
    await world.run(closed)
    told = world.obj.status.timeline.to_dict()
    assert list(told) == [
        "faultSeen",
        "jobCreated",
        "permitGranted",
        "cordoned",
        "drained",
        "acted",
        "verified",
        "closed",
        "podsUnavailable",
    ]
    assert told["podsUnavailable"] == "42s"
    reasons = [e.reason for e in world.events]
    assert reasons == ["JobAwaitingPermit", "JobRunning", "JobVerifying", "JobSucceeded"]


async def test_f19_a_cordoned_node_ends_cordoned_and_without_our_mark() -> None:
    world = FakeWorld(an_object(DRAIN), unschedulable=True)
    await world.run(closed)
    assert world.obj.status.phase is JobPhase.SUCCEEDED
    assert world.unschedulable and world.cordons == 0
    assert "uncordon" not in world.writes


async def test_f08_a_persons_uncordon_cancels_and_is_not_answered_with_a_cordon() -> None:
    world = FakeWorld(an_object(DRAIN), agent_works=False)
    await world.run(lambda w: w.obj.status.step == 2 and w.job.in_flight)
    world.unschedulable = False
    world.agent_works = True
    await world.run(closed)
    assert world.obj.status.phase is JobPhase.CANCELLED
    assert not world.unschedulable and world.annotations == {} and world.permits == {}


@pytest.mark.exhaustive
async def test_f17_yields_its_slot_and_drains_when_the_budget_allows() -> None:
    world = FakeWorld(an_object(DRAIN), budget=0)
    await world.run(lambda w: w.obj.status.phase is JobPhase.AWAITING_PERMIT and not w.permits, 1)
    held = world.obj.status.hold
    while world.permits or held is None or held.reason != "PDBBlocked":
        await world.run(lambda w: not w.permits, 1)
        held = world.obj.status.hold
    assert world.unschedulable and world.evictions == []
    assert "shop/a" in held.message and "shop/cart" in held.message
    world.budget = 1000
    await world.run(closed)
    assert world.obj.status.phase is JobPhase.SUCCEEDED
    assert world.cordons == 1


async def test_f16_a_fault_that_goes_before_the_act_is_cancelled_and_all_is_released() -> None:
    world = FakeWorld(an_object(DRAIN), budget=0)
    await world.run(lambda w: w.obj.status.step == 1 and w.obj.status.hold is not None)
    world.needs = 0
    await world.run(closed)
    assert world.obj.status.phase is JobPhase.CANCELLED
    assert world.restarts == [] and not world.unschedulable and world.permits == {}


async def test_a_node_that_is_replaced_under_us_is_left_alone() -> None:
    world = FakeWorld(an_object(DRAIN), agent_works=False)
    await world.run(lambda w: w.job.in_flight)
    world.node_uid = "another"
    await world.run(closed)
    assert world.obj.status.phase is JobPhase.CANCELLED
    assert world.unschedulable, "the new node's cordon is not ours"


@pytest.mark.exhaustive
async def test_engines_that_disagree_hold_the_job_before_anything_is_cordoned() -> None:
    world = FakeWorld(an_object(DRAIN), disagree=True)
    await world.run(closed, hours=1)
    assert world.obj.status.hold is not None
    assert world.obj.status.hold.reason == "EnginesDisagree"
    assert world.cordons == 0 and world.permits == {}


async def test_a_refused_job_waits_without_writing_all_the_time() -> None:
    world = FakeWorld(an_object(DRAIN), allowed=False)
    await world.run(closed, hours=1)
    assert world.obj.status.hold is not None
    assert world.obj.status.hold.reason == "ConcurrencyLimit"
    assert len(world.writes) < 130


async def test_a_conflict_with_the_agent_loses_nothing() -> None:
    world = FakeWorld(an_object(DRAIN))
    await world.run(lambda w: w.job.in_flight)
    before = world.job
    world.write_status({"agent": {"requests": {"r9s9a9": {"state": "Running"}}}})
    after = before.having(message="outdated")
    with pytest.raises(Exception, match="somebody wrote first"):
        await world.save(before, after)
    assert world.obj.status.agent is not None and "r9s9a9" in world.obj.status.agent.requests


def test_a_patch_never_holds_the_agents_part() -> None:
    before = a_job(status={"agent": {"requests": {"r0s0a1": {"state": "Running"}}}})
    patch = status_patch(before, before.having(agent=None, message="new"))
    assert patch == {"phase": "Pending", "observedGeneration": 1, "message": "new"}


@pytest.mark.exhaustive
async def test_a_closed_job_goes_after_its_time() -> None:
    world = FakeWorld(an_object(DRAIN))
    await world.run(lambda w: w.deleted, hours=100)
    assert world.deleted
    closed_at = world.obj.status.timeline.closed
    assert closed_at is not None
    assert world.clock.now() - closed_at >= timedelta(hours=72)


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.exhaustive
async def test_a_person_leads_a_job_on_however_often_it_dies(applied: bool) -> None:
    for die_at in count(1):
        world = FakeWorld(an_object(DRAIN, RESTART), agent_works=False, applied=applied)
        await world.run(needs_human)
        assert world.unschedulable and world.obj.status.rung == 1
        words = [{"decision": "Close", "by": ""}, {"decision": "Next", "rung": 0, "by": "ann"}]
        spec = {**world.obj.spec.to_dict(), "approvals": words}
        read = type(world.obj.spec).model_validate(spec)
        world.obj = world.obj.model_copy(update={"spec": read})
        before = len(world.writes)
        world.agent_works, world.die_at = True, before + die_at
        await world.run(closed)
        assert world.obj.status.phase is JobPhase.SUCCEEDED
        assert world.obj.status.words_heard == 2
        assert world.restarts == ["r0s2a2"], "a request of its own, though the rung ran before"
        assert world.cordons == 1 and not world.unschedulable and world.permits == {}
        if len(world.writes) < world.die_at:
            return
