"""Whatever happened before: once nothing is in its way, a job ends and leaves nothing behind."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.remedy_builders import DRAIN, RESTART, TELL, an_object
from support.remedy_world import Crash, FakeWorld, closed

from kubenode.api.cordon import CORDONED_BY
from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.remedyoperationjob import ApprovalDecision

LEVERS = st.sampled_from(
    [
        "turn",
        "no permits",
        "permits",
        "silent agent",
        "agent",
        "no budget",
        "budget",
        "engines differ",
        "engines agree",
        "healed",
        "ill again",
        "cordon",
        "uncordon",
        "lose permits",
        "Approve",
        "Deny",
        "Next",
        "Retry",
        "Close",
        "cancel",
        "crash",
        "an hour",
    ]
)
LADDERS = st.lists(st.sampled_from([DRAIN, RESTART, TELL]), min_size=1, max_size=3)


def say(world: FakeWorld, decision: str) -> None:
    word = ApprovalDecision.model_validate({"decision": decision, "by": "ann"})
    world.obj = world.obj.model_copy(
        update={
            "spec": world.obj.spec.model_copy(
                update={"approvals": [*world.obj.spec.approvals[:15], word]}
            )
        }
    )


def pull(world: FakeWorld, lever: str) -> None:
    match lever:
        case "no permits" | "permits":
            world.allowed = lever == "permits"
        case "silent agent" | "agent":
            world.agent_works = lever == "agent"
        case "no budget" | "budget":
            world.budget = 1000 if lever == "budget" else 0
        case "engines differ" | "engines agree":
            world.disagree = lever == "engines differ"
        case "healed" | "ill again":
            world.needs = 0 if lever == "healed" else len(set(world.restarts)) + 1
        case "cordon":
            world.unschedulable = True
        case "uncordon":
            world.unschedulable = False
        case "lose permits":
            world.permits.clear()
        case "cancel":
            spec = world.obj.spec.model_copy(update={"cancel": True})
            world.obj = world.obj.model_copy(update={"spec": spec})
        case "crash":
            world.die_at = len(world.writes) + 1
        case "an hour":
            world.clock.step(timedelta(hours=1))
        case "Approve" | "Deny" | "Next" | "Retry" | "Close":
            say(world, lever)
        case _:
            assert lever == "turn"


async def turn(world: FakeWorld) -> None:
    try:
        await world.controller().reconcile(world.obj.metadata.name)
    except Crash:
        world.die_at = 0
    world.others()
    world.clock.step(timedelta(seconds=20))


@pytest.mark.exhaustive
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(
    ladder=LADDERS,
    levers=st.lists(LEVERS, max_size=25),
    mode=st.sampled_from(["Enforce", "Approve"]),
)
async def test_from_any_state_a_job_ends_in_a_benign_world(
    ladder: list[dict[str, object]], levers: list[str], mode: str
) -> None:
    rungs = [{**rung, "name": f"{rung['name']}-{n}"} for n, rung in enumerate(ladder)]
    world = FakeWorld(an_object(*rungs, mode=mode))
    for lever in levers:
        pull(world, lever)
        await turn(world)
    for lever in ("permits", "agent", "budget", "engines agree", "healed"):
        pull(world, lever)
    for _ in range(400):
        if closed(world):
            break
        if world.obj.status.phase is JobPhase.AWAITING_APPROVAL:
            say(world, "Approve")
        await turn(world)
    assert closed(world), (levers, world.obj.status.to_dict())
    assert world.permits == {} or "lose permits" in levers
    assert CORDONED_BY not in world.annotations or not world.unschedulable
    assert world.obj.status.words_heard == len(world.obj.spec.approvals)
