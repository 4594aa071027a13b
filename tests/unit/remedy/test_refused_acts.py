"""Acts of jobs behind the guard: what the last look is against is not done, and leads to no other
rung. Each kind of rung, each reason, also dying at each write.
"""

from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from support.power_world import FakeHost
from support.remedy_builders import TELL, an_object
from support.remedy_world import FakeWorld, closed, needs_human

from kubenode.api.v1alpha1 import HoldReason, JobPhase
from kubenode.providers.port import Can
from kubenode.runtime.disruption.request import RefusalReason

VERIFY = {"for": "1m", "timeout": "5m"}
OFF_ON: dict[str, Any] = {"name": "cycle", "steps": [{"powerCycle": {"timeout": "10m"}}]}
RESET: dict[str, Any] = {
    "name": "reset",
    "steps": [{"reboot": {"via": ["Provider"], "timeout": "10m"}}],
}
REPLACE: dict[str, Any] = {"name": "replace", "steps": [{"replace": {"timeout": "20m"}}]}
FENCED: dict[str, Any] = {
    "name": "fenced",
    "steps": [{"powerOff": {}}, {"fence": {}}, {"replace": {"timeout": "20m"}}],
}
RUNGS = {"cycle": OFF_ON, "reset": RESET, "replace": REPLACE, "fenced": FENCED}
ALWAYS_THE_SAME = [r for r in RefusalReason if r not in ("Expired", "NoIntent", "BootChanged")]
REPEATABLE = Can(off=True, reset=True, replace=True, repeatable=True)


def hung(rung: dict[str, Any], *against: RefusalReason, **levers: Any) -> FakeWorld:
    """A host that hangs, a ladder with a rung behind this one, and what the last looks find."""
    obj = an_object(rung | {"verify": VERIFY}, TELL)
    return FakeWorld(obj, hung=True, needs=0, against=list(against), **levers)


def at_rest(world: FakeWorld) -> bool:
    return closed(world) or needs_human(world)


def words(world: FakeWorld) -> list[str]:
    return [word for word, _ in world.host.asked]


@pytest.mark.parametrize("times", [1, 25])
@pytest.mark.parametrize("reason", ALWAYS_THE_SAME)
@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.exhaustive
async def test_a_refused_act_waits_and_ends_as_if_it_had_not_been_refused(
    rung: str, reason: RefusalReason, times: int
) -> None:
    plain, world = hung(RUNGS[rung]), hung(RUNGS[rung], *[reason] * times)
    await plain.run(at_rest)
    await world.run(at_rest)
    assert not world.against, "each refusal was met"
    assert words(world) == words(plain)
    assert (world.job.phase, world.job.status.rung) == (plain.job.phase, 0)
    assert world.job.phase is JobPhase.SUCCEEDED


@pytest.mark.parametrize("reason", ALWAYS_THE_SAME)
@pytest.mark.parametrize("rung", ["cycle", "reset"])
@pytest.mark.exhaustive
async def test_a_refusal_is_the_jobs_hold_and_nobody_is_asked(
    rung: str, reason: RefusalReason
) -> None:
    world = hung(RUNGS[rung], *[reason] * 10_000)
    await world.run(lambda world: world.job.phase.closed, hours=0.75)
    hold = world.job.status.hold
    assert hold is not None and hold.reason == HoldReason.ACT_REFUSED
    assert str(reason) in hold.message
    assert words(world) == [] and world.job.status.rung == 0
    assert len(world.writes) < 3 * 45 * 60 / 30 + 12, "it writes when it looks, each 30 s"


@pytest.mark.parametrize("rung", ["cycle", "reset"])
async def test_a_host_that_boots_right_before_the_act_is_left_alone(rung: str) -> None:
    world = hung(RUNGS[rung], RefusalReason.BOOT_CHANGED)
    await world.run(at_rest)
    assert words(world) == [] and world.job.phase.closed and world.job.status.rung == 0


@pytest.mark.parametrize("rung", RUNGS)
async def test_a_host_that_boots_and_stays_ill_is_acted_on_by_a_new_decision(rung: str) -> None:
    world = hung(RUNGS[rung], RefusalReason.BOOT_CHANGED, sick=True)
    boots = world.boots

    def boots_in_vain() -> None:
        boots()
        world.hung, world.boots = True, boots  # type: ignore[method-assign]

    world.boots = boots_in_vain  # type: ignore[method-assign]
    await world.run(at_rest)
    if rung == "reset":  # it has booted, which is what its step is for; the next rung follows
        assert words(world) == []
    else:
        assert words(world) and world.job.status.rung == 0


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("reason", ["NoPermit", "BootChanged"])
@pytest.mark.parametrize("can", [None, REPEATABLE])
@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.exhaustive
async def test_whoever_dies_at_a_write_around_a_refusal_leads_to_no_second_act(
    rung: str, can: Can | None, reason: str, applied: bool
) -> None:
    for die_at in count(1):
        host = FakeHost() if can is None else FakeHost(can=can)
        world = hung(RUNGS[rung], RefusalReason(reason), host=host, die_at=die_at, applied=applied)
        await world.run(at_rest)
        asked = [request for word, request in world.host.asked if word in ("reset", "replace")]
        assert len(set(asked)) <= 1, "two requests for one wish"
        assert at_rest(world) and world.permits == {}
        if len(world.writes) < die_at:
            break


async def test_an_act_under_way_whose_permit_goes_is_asked_for_no_more() -> None:
    """A machine that does not follow its off is asked again, and not without a permit."""
    host = FakeHost(off_after=timedelta(minutes=3))
    world = hung(OFF_ON, host=host)
    await world.run(lambda world: bool(world.host.asked))
    world.against = [RefusalReason.NO_PERMIT] * 3
    await world.run(at_rest)
    assert words(world)[-1] == "on" and world.job.phase is JobPhase.SUCCEEDED


@pytest.mark.parametrize("reason", list(RefusalReason))
async def test_a_machine_that_is_off_is_switched_on_whatever_stands_against_acts(
    reason: RefusalReason,
) -> None:
    world = hung(OFF_ON)
    await world.run(lambda world: world.host.state.dark)
    world.against = [reason] * 10_000
    world.permits.clear()
    await world.run(at_rest)
    assert words(world)[:2] == ["off", "on"] and set(words(world)[2:]) <= {"on"}
    assert world.host.state == "On"


@pytest.mark.parametrize("times", [1, 20])
@pytest.mark.parametrize(
    "steps",
    [
        [{"reboot": {"via": ["Agent"]}}],
        [{"reboot": {}}],
        [{"agent": {"action": "ResetGPU"}}],
    ],
    ids=["by the agent", "by either", "a GPU"],
)
async def test_a_request_that_the_agent_finds_no_permit_for_is_decided_anew(
    steps: list[dict[str, Any]], times: int
) -> None:
    obj = an_object({"name": "act", "steps": steps, "verify": VERIFY}, TELL)
    boots = "reboot" in steps[0]
    world = FakeWorld(obj, sick=boots, needs=0 if boots else 1, unpermitted=times)
    began = world.clock.now()
    await world.run(at_rest)
    assert world.unpermitted == 0
    assert (world.job.phase, world.job.status.rung) == (JobPhase.SUCCEEDED, 0)
    assert len(world.host.asked) + len(world.restarts) == 1
    assert world.clock.now() - began >= times * timedelta(seconds=30), "it asks again at its time"
