"""Jobs that switch, boot, fence and replace a machine, whole, and dying at any write.

What must never happen (a second reset, a boot behind our fence, a fence around a machine that may
run, a request that nobody wrote down) is asserted by the simulated host where it would happen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from support.power_world import FakeHost
from support.remedy_builders import an_object
from support.remedy_world import FakeWorld, closed, needs_human

from kubenode.api.v1alpha1 import JobPhase, RemedyOperationJob
from kubenode.providers.port import Can, PowerState
from remedy.job.controller import JobController, never_busy
from remedy.power.observation import RequestOutcome

VERIFY = {"for": "1m", "timeout": "5m"}
CYCLE: dict[str, Any] = {
    "name": "power-cycle",
    "steps": [{"cordon": {}}, {"migrate": {"timeout": "5m"}}, {"powerCycle": {"timeout": "10m"}}],
    "verify": VERIFY,
}
REPLACE: dict[str, Any] = {
    "name": "replace",
    "steps": [{"powerOff": {}}, {"fence": {}}, {"replace": {"timeout": "20m"}}],
    "verify": VERIFY,
}
REBOOT: dict[str, Any] = {
    "name": "reboot",
    "steps": [{"cordon": {}}, {"reboot": {}}],
    "verify": VERIFY,
}
BY_PROVIDER: dict[str, Any] = {
    "name": "reset",
    "steps": [{"cordon": {}}, {"reboot": {"via": ["Provider"], "timeout": "10m"}}],
    "verify": VERIFY,
}
OFF_AND_ON: dict[str, Any] = {
    "name": "off-and-on",
    "steps": [{"cordon": {}}, {"powerOff": {}}, {"fence": {}}, {"powerOn": {}}],
    "verify": VERIFY,
}
NEVER = None
SHORT: dict[str, Any] = CYCLE | {"steps": [{"cordon": {}}, {"powerCycle": {"timeout": "2m"}}]}
"""Whoever looks at each of its writes dies at each of them: it has few."""


def hung(*rungs: dict[str, Any], host: FakeHost | None = None, **levers: Any) -> FakeWorld:
    spec = {k: levers.pop(k) for k in ("onGiveUp",) if k in levers}
    host = host or FakeHost()
    return FakeWorld(an_object(*rungs, **spec), host=host, hung=True, needs=0, **levers)


def at_rest(world: FakeWorld) -> bool:
    return closed(world) or needs_human(world)


def words(world: FakeWorld) -> list[str]:
    return [word for word, _ in world.host.asked]


def states(obj: RemedyOperationJob) -> dict[str, str]:
    return {f"{r.rung}.{r.name}": str(r.state) for r in obj.status.steps}


def clean(world: FakeWorld) -> None:
    assert world.permits == {} and not world.unschedulable
    assert not world.out_of_service and world.annotations == {}


# -- a hung host -----------------------------------------------------------------------------------


async def test_a_hung_host_is_drained_power_cycled_proven_by_its_boot_and_back_in_service() -> None:
    world = hung(CYCLE, REPLACE)
    await world.run(at_rest)
    assert world.obj.status.phase is JobPhase.SUCCEEDED
    assert set(words(world)) == {"off", "on"} and world.host.booted == 1
    assert sorted(world.evictions) == ["shop/a", "shop/b"]
    clean(world)


async def test_a_host_that_does_not_come_back_is_switched_off_fenced_and_replaced() -> None:
    world = hung(CYCLE, REPLACE, host=FakeHost(up_after=NEVER))
    await world.run(at_rest)
    assert world.obj.status.phase is JobPhase.SUCCEEDED, states(world.obj)
    told = states(world.obj)
    del told["0.migrate"]  # its pods do not end on a host that hangs
    assert told == {
        "0.cordon": "Done",
        "0.powerCycle": "Failed",
        "1.powerOff": "Done",
        "1.fence": "Done",
        "1.replace": "Done",
    }
    assert world.writes.index("fence") < world.writes.index("replace")
    assert world.permits == {}


async def test_a_host_that_neither_boots_nor_is_replaced_waits_for_a_person_fenced() -> None:
    host = FakeHost(up_after=NEVER, path="")
    world = hung(CYCLE, REPLACE, host=host)
    await world.run(at_rest)
    assert world.obj.status.phase is JobPhase.NEEDS_HUMAN
    assert "nobody can replace" in world.obj.status.message
    assert world.unschedulable and world.out_of_service and world.permits == {}


@pytest.mark.exhaustive
@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize(
    ("rungs", "up_after"),
    [
        ((CYCLE, REPLACE), timedelta(seconds=60)),
        ((SHORT, REPLACE), NEVER),
        ((OFF_AND_ON,), timedelta(seconds=60)),
    ],
)
async def test_dying_at_any_write_ends_the_same_with_at_most_one_boot(
    rungs: tuple[dict[str, Any], ...], up_after: timedelta | None, applied: bool
) -> None:
    can = Can(off=True, reset=True, replace=True, repeatable=True)
    for die_at in count(1):
        world = hung(
            *rungs, host=FakeHost(up_after=up_after, can=can), die_at=die_at, applied=applied
        )
        await world.run(at_rest)
        assert world.obj.status.phase is JobPhase.SUCCEEDED, (die_at, states(world.obj))
        assert world.host.booted == (1 if up_after else 0)
        assert world.permits == {}
        if len(world.writes) < die_at:
            return


# -- reboot ----------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("repeatable", [False, True])
async def test_a_reset_is_asked_for_at_most_once_whenever_the_controller_dies(
    applied: bool, repeatable: bool
) -> None:
    """It may be lost where nobody can know whether it was asked: then the deadline decides."""
    can = Can(reset=True, repeatable=repeatable)
    lost = 0
    for die_at in count(1):
        world = hung(BY_PROVIDER, host=FakeHost(can=can), die_at=die_at, applied=applied)
        await world.run(at_rest)
        assert len(set(world.host.asked)) <= 1 and world.host.booted <= 1
        if world.obj.status.phase is JobPhase.NEEDS_HUMAN:
            lost += 1
            assert "not back with a new boot within 10m" in world.obj.status.message
            assert world.permits == {}
        else:
            assert world.obj.status.phase is JobPhase.SUCCEEDED
            clean(world)
        if len(world.writes) < die_at:
            break
    assert lost <= (0 if repeatable else 2), "only a death between asking and hearing loses it"


@dataclass
class Lives(FakeWorld):
    """A write of the status that dies is one whose answer was lost: the process goes on."""

    one: JobController | None = None

    def controller(self, busy: Callable[[], bool] = never_busy) -> JobController:
        self.one = self.one or super().controller(busy)
        return self.one


@pytest.mark.exhaustive
@pytest.mark.parametrize("applied", [False, True])
async def test_a_process_that_goes_on_knows_whom_it_has_not_asked_yet(applied: bool) -> None:
    """An API server that does not answer costs no reset: nobody else could have asked for it."""
    for die_at in count(1):
        obj, host = an_object(BY_PROVIDER), FakeHost(can=Can(reset=True))
        world = Lives(obj, host=host, hung=True, needs=0, die_at=die_at, applied=applied)
        await world.run(at_rest)
        if world.writes[die_at - 1 : die_at] != ["reset"]:
            assert world.obj.status.phase is JobPhase.SUCCEEDED, world.writes
        assert words(world).count("reset") <= 1 and world.host.booted <= 1
        if len(world.writes) < die_at:
            return


async def wiped(world: FakeWorld) -> None:
    """Somebody removes the whole status of the job."""
    gone = {key: None for key in world.obj.to_dict().get("status", {})}
    world.write_status(gone)
    assert world.obj.status.steps == []


@pytest.mark.parametrize("repeatable", [False, True])
@pytest.mark.parametrize("rounds", range(4))
async def test_a_reset_is_not_asked_for_again_when_the_status_is_wiped_after_it(
    rounds: int, repeatable: bool
) -> None:
    """S-6, and again in each of the next rounds, and in the life after that."""
    host = FakeHost(can=Can(reset=True, repeatable=repeatable), up_after=timedelta(seconds=90))
    world = hung(BY_PROVIDER, host=host)
    for _ in range(2):
        await world.run(lambda w: bool(w.host.asked) and bool(w.obj.status.steps))
        for _ in range(rounds):
            await world.controller().reconcile(world.job.name)
        if not at_rest(world):
            await wiped(world)
    await world.run(at_rest)
    assert len(set(world.host.asked)) == 1 and world.host.booted == 1
    assert world.obj.status.phase in (JobPhase.SUCCEEDED, JobPhase.CANCELLED)
    clean(world)


async def test_a_machine_is_not_replaced_again_when_the_status_is_wiped_after_it() -> None:
    rung = {"name": "replace", "steps": [{"replace": {"timeout": "20m"}}], "verify": VERIFY}
    world = hung(rung, host=FakeHost(renews=True, up_after=timedelta(seconds=90)))
    await world.run(lambda w: "replace" in words(w))
    await wiped(world)
    await world.run(at_rest)
    assert words(world) == ["replace"]
    assert world.obj.status.phase is JobPhase.SUCCEEDED


@pytest.mark.parametrize("rung", [CYCLE, OFF_AND_ON])
@pytest.mark.parametrize("rounds", range(6))
@pytest.mark.exhaustive
async def test_a_machine_that_was_switched_off_comes_on_when_the_status_is_wiped_after_it(
    rounds: int, rung: dict[str, Any]
) -> None:
    world = hung(rung, host=FakeHost(up_after=timedelta(seconds=30)))
    await world.run(lambda w: "off" in words(w))
    for _ in range(rounds):
        await world.controller().reconcile(world.job.name)
    if not at_rest(world):
        await wiped(world)
    await world.run(at_rest)
    assert world.obj.status.phase is JobPhase.SUCCEEDED, world.obj.status.message
    assert world.host.state is PowerState.ON and world.host.booted == 1


async def test_an_agent_that_answers_reboots_its_host_and_no_provider_is_asked() -> None:
    world = FakeWorld(an_object(REBOOT), needs=0, sick=True)
    await world.run(at_rest)
    assert world.obj.status.phase is JobPhase.SUCCEEDED
    assert words(world) == ["reset"] and world.boot == "boot-2"
    assert "reset" not in world.writes, "the provider was not asked"


@pytest.mark.parametrize("how", ["silent", "refuses"])
async def test_an_agent_that_does_not_reboot_gives_way_to_the_provider(how: str) -> None:
    world = hung(REBOOT) if how == "silent" else FakeWorld(an_object(REBOOT), needs=0, sick=True)
    world.agent_reboots = False
    await world.run(at_rest)
    assert world.obj.status.phase is JobPhase.SUCCEEDED
    assert words(world) == ["reset"] and world.writes.count("reset") == 1
    record = next(r for r in world.obj.status.steps if r.name == "reboot")
    assert "agent" in record.output["Agent"]


async def test_an_agent_that_wakes_late_finds_its_request_expired_and_of_another_boot() -> None:
    world = hung(REBOOT)
    await world.run(lambda w: w.job.record is not None and "Agent" in w.job.record.output)
    asked = [r for r in world.obj.status.steps if r.by == "Agent" and r.state == "Running"]
    assert asked == [], "nothing is asked of the agent any more"
    world.hung = False
    await world.run(at_rest)
    assert world.host.booted == 1


# -- F21, F22 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rung", [CYCLE, BY_PROVIDER, REPLACE])
async def test_f21_a_call_that_is_refused_fails_at_once_and_says_so(rung: dict[str, Any]) -> None:
    host = FakeHost(refuses=[(RequestOutcome.REFUSED, "fake: no right to do this")] * 2)
    world = hung(rung, host=host)
    started = world.clock.now()
    await world.run(needs_human)
    assert "no right to do this" in world.obj.status.message
    assert world.clock.now() - started < timedelta(minutes=5)
    assert world.permits == {}


@pytest.mark.parametrize("outcome", [RequestOutcome.UNCLEAR, RequestOutcome.LATER])
async def test_f21_a_call_that_fails_for_now_is_tried_again_with_back_off(
    outcome: RequestOutcome,
) -> None:
    host = FakeHost(refuses=[(outcome, "fake: away")] * 4)
    world = hung(CYCLE, host=host)
    await world.run(lambda w: w.obj.status.hold is not None)
    held = world.obj.status.hold
    assert held is not None and held.reason == "ProviderUnreachable" and held.look_again_at
    assert "away" in held.message
    await world.run(at_rest)
    assert world.obj.status.phase is JobPhase.SUCCEEDED
    clean(world)


async def test_f21_a_provider_that_never_answers_is_given_up_at_the_deadline() -> None:
    host = FakeHost(unread=[(RequestOutcome.UNCLEAR, "fake: no route")] * 10_000)
    world = hung(CYCLE, host=host)
    await world.run(needs_human)
    assert "no route" in world.obj.status.message and world.host.asked == []
    assert len(host.unread) > 10_000 - 120, "it was asked without a pause"


async def test_f21_a_machine_that_no_provider_has_fails_at_once() -> None:
    world = hung(BY_PROVIDER, host=FakeHost(provider=""))
    await world.run(needs_human)
    assert "no provider has this machine" in world.obj.status.message


async def test_f22_a_reboot_that_never_ends_is_failed_by_the_controller_and_frees_the_slot() -> (
    None
):
    world = hung(REBOOT, host=FakeHost(up_after=NEVER))
    started = world.clock.now()
    await world.run(needs_human)
    record = next(r for r in world.obj.status.steps if r.name == "reboot")
    assert (record.state, world.permits) == ("Failed", {})
    assert world.clock.now() - started < timedelta(minutes=12)
    assert world.unschedulable, "nobody gets a pod on it"
    assert "not back with a new boot within 10m" in world.obj.status.message


async def test_f22_the_ladder_goes_on_above_a_reboot_that_never_ended() -> None:
    world = hung(REBOOT, REPLACE, host=FakeHost(up_after=NEVER))
    await world.run(at_rest)
    assert world.obj.status.phase is JobPhase.SUCCEEDED
    assert states(world.obj)["0.reboot"] == "Failed"
    assert states(world.obj)["1.replace"] == "Done"


# -- fence, off, on --------------------------------------------------------------------------------


async def test_without_proof_of_darkness_nothing_is_fenced() -> None:
    world = hung({"name": "fence", "steps": [{"fence": {}}], "verify": VERIFY})
    await world.run(needs_human)
    assert not world.out_of_service and "does not prove that it is off" in world.obj.status.message


FENCE: dict[str, Any] = {
    "name": "fence",
    "steps": [{"cordon": {}}, {"fence": {}}, {"notify": {"message": "fenced"}}],
    "verify": VERIFY,
}


@pytest.mark.parametrize("unread", [(), [(RequestOutcome.UNCLEAR, "no answer")] * 200])
async def test_fencing_goes_on_by_itself_when_the_provider_says_off_later(
    unread: list[tuple[RequestOutcome, str]],
) -> None:
    world = hung(FENCE, host=FakeHost(unread=list(unread)))
    await world.run(needs_human)
    assert not world.out_of_service and world.unschedulable
    assert states(world.obj)["0.fence"] == "Failed" and world.permits == {}
    world.host.state, world.host.unread = PowerState.OFF, []
    await world.run(lambda w: w.obj.status.phase is JobPhase.VERIFYING, hours=1)
    assert world.out_of_service and states(world.obj)["0.notify"] == "Done"
    assert world.cordons == 1, "only the step that failed is done again"


async def test_fencing_does_not_go_on_while_the_machine_runs_or_the_fault_is_unclear() -> None:
    world = hung(FENCE)
    await world.run(needs_human)
    await world.run(closed, hours=1)
    assert needs_human(world) and not world.out_of_service
    world.host.state, world.disagree = PowerState.OFF, True
    await world.run(closed, hours=1)
    assert needs_human(world) and not world.out_of_service


async def test_the_fence_is_off_before_the_machine_is_on() -> None:
    world = hung(OFF_AND_ON)
    await world.run(at_rest)
    assert world.obj.status.phase is JobPhase.SUCCEEDED
    assert world.writes.index("unfence") < world.writes.index("on")
    clean(world)


async def test_a_fence_that_is_not_ours_stays() -> None:
    world = hung(OFF_AND_ON, out_of_service=True)
    await world.run(at_rest)
    assert world.out_of_service and "fence" not in world.writes


async def test_a_cancelled_job_takes_its_fence_and_cordon_off() -> None:
    off = {
        "name": "x",
        "steps": [{"cordon": {}}, {"powerOff": {}}, {"fence": {}}, {"wait": {"for": "5m"}}],
    }
    world = hung(off)
    await world.run(lambda w: w.obj.status.step == 3)
    assert world.out_of_service
    obj = world.obj
    world.obj = obj.model_copy(update={"spec": obj.spec.model_copy(update={"cancel": True})})
    await world.run(closed)
    assert world.obj.status.phase is JobPhase.CANCELLED
    assert world.host.asked[-1] == ("on", "undo"), "and the machine runs again"
    clean(world)


async def test_a_machine_that_is_off_already_is_switched_on_only() -> None:
    world = hung(CYCLE, host=FakeHost(state=PowerState.OFF))
    await world.run(at_rest)
    assert world.obj.status.phase is JobPhase.SUCCEEDED and set(words(world)) == {"on"}


async def test_a_person_cannot_cut_a_power_cycle_in_two() -> None:
    world = hung(CYCLE)
    await world.run(lambda w: w.host.state is not PowerState.ON)
    obj = world.obj
    world.obj = obj.model_copy(update={"spec": obj.spec.model_copy(update={"cancel": True})})
    await world.run(closed)
    assert world.host.state is PowerState.ON and world.host.booted == 1
    assert world.obj.status.phase is JobPhase.CANCELLED
    clean(world)


async def test_a_provider_that_cannot_switch_off_resets_once() -> None:
    world = hung(CYCLE, host=FakeHost(can=Can(reset=True)))
    await world.run(at_rest)
    assert world.obj.status.phase is JobPhase.SUCCEEDED and words(world) == ["reset"]


# -- replace ---------------------------------------------------------------------------------------


async def test_a_running_machine_is_not_replaced_once_the_fault_is_no_longer_plain() -> None:
    rung = {"name": "r", "steps": [{"cordon": {}}, {"wait": {"for": "1m"}}, {"replace": {}}]}
    world = hung(rung)
    await world.run(lambda w: w.obj.status.step == 1)
    world.hung = False
    await world.run(closed)
    assert world.obj.status.phase is JobPhase.CANCELLED and world.host.asked == []


async def test_a_replacement_that_never_comes_needs_a_person_and_frees_the_slot() -> None:
    world = hung(REPLACE, host=FakeHost(new_after=NEVER))
    await world.run(needs_human)
    assert words(world).count("replace") == 1 and world.permits == {}
    assert "not replaced within 20m" in world.obj.status.message


async def test_nothing_asks_for_a_machine_while_a_person_is_waited_for() -> None:
    world = hung(CYCLE, host=FakeHost(up_after=NEVER))
    await world.run(needs_human)
    before = list(world.host.asked)
    await world.run(closed, hours=3)
    assert world.host.asked == before


async def test_a_group_that_refuses_to_have_its_machine_switched_off_takes_a_reset() -> None:
    host = FakeHost(refuses=[(RequestOutcome.REFUSED, "fake: the group would replace it")])
    world = hung(CYCLE, host=host)
    await world.run(at_rest)
    assert world.obj.status.phase is JobPhase.SUCCEEDED and words(world) == ["reset"]


async def test_a_provider_that_refuses_both_ways_to_boot_is_not_asked_for_ever() -> None:
    refuses = [
        (RequestOutcome.REFUSED, "fake: no off"),
        (RequestOutcome.REFUSED, "fake: no reset"),
    ] * 5
    world = hung(CYCLE, host=FakeHost(refuses=refuses))
    await world.run(needs_human)
    assert len(world.host.refuses) == 8
    assert "no off" in world.obj.status.message and "no reset" in world.obj.status.message


async def test_a_machine_that_is_made_anew_as_itself_is_replaced_once_it_has_booted() -> None:
    world = hung({"name": "r", "steps": [{"replace": {}}], "verify": VERIFY})
    world.host.renews = True
    await world.run(at_rest)
    assert world.obj.status.phase is JobPhase.SUCCEEDED and world.host.booted == 1
    assert world.node_uid == "node-uid-1"


async def test_a_machine_that_we_left_dark_is_not_taken_for_healed() -> None:
    """The evidence of a hung host says that it is on: of a dark one it is false."""
    refuses = [(RequestOutcome.TAKEN, ""), (RequestOutcome.REFUSED, "fake: no capacity")]
    host = FakeHost(refuses=refuses)
    world = hung(CYCLE, REPLACE, host=host, blind_to_dark=True)
    await world.run(at_rest)
    assert world.obj.status.phase is JobPhase.SUCCEEDED, world.obj.status.message
    assert states(world.obj)["0.powerCycle"] == "Failed"
    assert states(world.obj)["1.replace"] == "Done"


async def test_a_person_finds_the_machine_that_we_left_dark_cordoned_and_fenced() -> None:
    host = FakeHost(up_after=NEVER, path="")
    world = hung(CYCLE, REPLACE, host=host, blind_to_dark=True)
    await world.run(needs_human)
    await world.run(closed, hours=3)
    assert world.obj.status.phase is JobPhase.NEEDS_HUMAN
    assert world.unschedulable and world.out_of_service
