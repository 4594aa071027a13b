"""A job that switched a machine off never ends with it off and nobody called.

Every round of every way to switch a machine off, times every way to end the job there.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.clock import T0
from support.remedy_builders import JOB, a_job, granted, seen

from kubenode.api.v1alpha1 import JobPhase
from kubenode.providers.port import Can, Power, PowerState
from remedy.job.marks import MARKS
from remedy.job.model import Act, JobAct, JobActResult, NodeObservation
from remedy.job.power_demand import asks_power
from remedy.job.power_record import FenceAct, PowerAct
from remedy.job.request_notes import to_note
from remedy.job.step import step
from remedy.job.steps.replace import ReplaceAct
from remedy.job.supersession import may_be_superseded
from remedy.job.unsent_requests import Unasked
from remedy.power.access import machine_of
from remedy.power.leave import request_of
from remedy.power.observation import PowerObservation, ReplacementObservation, RequestOutcome

VERIFY = {"for": "1m", "timeout": "5m"}
RUNGS: dict[str, dict[str, Any]] = {
    "power-cycle": {"steps": [{"cordon": {}}, {"powerCycle": {"timeout": "5m"}}], "verify": VERIFY},
    "off-wait-on": {
        "steps": [
            {"cordon": {}},
            {"powerOff": {"timeout": "5m"}},
            {"wait": {"for": "2m"}},
            {"powerOn": {"timeout": "5m"}},
        ],
        "verify": VERIFY,
    },
    "off-fence-replace": {
        "steps": [
            {"cordon": {}},
            {"powerOff": {"timeout": "5m"}},
            {"fence": {"timeout": "5m"}},
            {"replace": {"timeout": "10m"}},
        ],
        "verify": VERIFY,
    },
    "off-without-cordon": {"steps": [{"powerOff": {"timeout": "5m"}}], "verify": VERIFY},
}
ENDS = ("cancel", "uncordon", "delete", "node gone", "nothing")
PROVIDERS = ("well", "slow", "refuses", "unreachable")
ROUNDS = 400


class DarkWorld:
    """One job, one machine. provider: how it behaves from the stop on."""

    def __init__(self, rung: str) -> None:
        self.job = a_job({"name": rung, **RUNGS[rung]}, onGiveUp="Hold")
        self.now, self.boot = T0, 1
        self.state = PowerState.ON
        self.off_at: datetime | None = None
        self.node: NodeObservation | None = NodeObservation(
            boot_id="boot-1", provider_id="fake:///n1", ready="Unknown", annotations=dict(MARKS)
        )
        self.provider = "well"
        self.heard: JobActResult | None = None
        self.unasked = Unasked()
        self.called = self.deleted = False
        self.acts: list[Act] = []
        self.requests: list[tuple[Act, str, str]] = []

    def round(self) -> None:
        see = seen(
            now=self.now,
            node=self.node,
            permit=granted(),
            act_result=self.heard,
            power=self._power() if asks_power(self.job, self.node) else None,
            unasked=self.unasked.holds(self.job),
            replacing=self._far(),
        )
        after, act = step(self.job, see)
        if after != self.job:
            self.called |= after.phase is JobPhase.NEEDS_HUMAN
            self.unasked.written(self.job, after)
            self.job, self.heard = after, None
        elif act is JobAct.NONE or self.deleted:
            self.now += timedelta(seconds=20)
            self.heard = None
        else:
            self.unasked.acting(self.job, act)
            self._do(act)

    def _power(self) -> PowerObservation:
        if self.provider == "unreachable":
            return PowerObservation("fake", CAN, outcome=RequestOutcome.UNCLEAR, why="no answer")
        if self.off_at is not None and self.now >= self.off_at:
            self.state, self.off_at = PowerState.OFF, None
        return PowerObservation("fake", CAN, Power(self.state, self.state.lower(), T0))

    def _far(self) -> ReplacementObservation:
        return ReplacementObservation(
            "InstanceGroup", "fake:///n1", "pool-a", why="nobody makes another"
        )

    def _do(self, act: Act) -> None:
        self.acts.append(act)
        self.heard = JobActResult(act)
        node = self.node
        match act:
            case PowerAct.POWER_OFF | PowerAct.POWER_ON | ReplaceAct.REPLACE:
                machine = machine_of(self.job, node).provider_id
                self.requests.append((act, machine, request_of(self.job)))
                self.heard = JobActResult(act, outcome=self._switch(act), error="it says no")
            case JobAct.ADD_FINALIZER | JobAct.REMOVE_FINALIZER:
                self.job = replace(self.job, finalizer=act is JobAct.ADD_FINALIZER)
            case JobAct.NOTE_REQUEST:
                self.job = replace(self.job, requested=to_note(self.job))
            case JobAct.ASK_PERMIT:
                self.heard = JobActResult(act, verdict=granted())
            case JobAct.CORDON | JobAct.UNCORDON if node is not None:
                on = act is JobAct.CORDON
                self.node = replace(node, unschedulable=on, cordoned_by=JOB if on else "")
            case FenceAct.FENCE | FenceAct.UNFENCE if node is not None:
                on = act is FenceAct.FENCE
                self.node = replace(node, out_of_service=on, fenced_by=JOB if on else "")
            case JobAct.DELETE:
                self.deleted = True
            case _:
                pass

    def _switch(self, act: Act) -> RequestOutcome:
        if self.provider == "unreachable":
            return RequestOutcome.UNCLEAR
        if act is PowerAct.POWER_OFF:
            slow = self.provider == "slow"
            wait = timedelta(seconds=90 if slow else 20)
            self.off_at = self.off_at or self.now + wait
            return RequestOutcome.TAKEN
        if self.provider == "refuses":
            return RequestOutcome.REFUSED
        if act is PowerAct.POWER_ON and self.off_at is None:
            self.state, self.boot = PowerState.ON, self.boot + 1
            if self.node is not None:
                self.node = replace(self.node, boot_id=f"boot-{self.boot}")
        return RequestOutcome.TAKEN

    def stop(self, how: str) -> None:
        match how:
            case "cancel":
                spec = self.job.spec.model_copy(update={"cancel": True})
                self.job = replace(self.job, spec=spec)
            case "uncordon" if self.node is not None:
                self.node = replace(self.node, unschedulable=False, cordoned_by="")
            case "delete":
                self.job = replace(self.job, deleting=True)
                self.deleted = not self.job.finalizer
            case "node gone":
                self.node = None
            case _:
                pass

    @property
    def is_dark(self) -> bool:
        return self.state is not PowerState.ON or self.off_at is not None


CAN = Can(off=True, reset=False, replace=True)


def lives(rung: str, provider: str, how: str) -> Iterator[tuple[int, DarkWorld]]:
    """The world after its job was stopped in its n-th round, for every n, and an hour went by."""
    for moment in range(1, ROUNDS):
        world = DarkWorld(rung)
        if provider == "slow":
            world.provider = provider
        for _ in range(moment):
            world.round()
        if world.job.phase.closed or world.called or moment > 60:
            return
        world.provider = provider
        world.stop(how)
        end = world.now + timedelta(hours=1)
        for _ in range(ROUNDS):
            if world.job.phase.closed or world.called or world.deleted or world.now > end:
                break
            world.round()
        yield moment, world


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("rung", RUNGS)
def test_a_job_never_ends_with_the_machine_off_and_nobody_called(
    rung: str, provider: str, how: str
) -> None:
    dark = 0
    for moment, world in lives(rung, provider, how):
        dark += PowerAct.POWER_OFF in world.acts
        told = (moment, world.job.phase, world.job.status.message, world.acts)
        assert not world.is_dark or world.called, told
        if world.job.phase.closed and provider in ("well", "slow") and not world.called:
            assert not world.is_dark, told
    assert dark > 2, "no machine was ever switched off"


@pytest.mark.parametrize("how", ["cancel", "delete", "uncordon", "node gone"])
def test_a_machine_that_is_off_is_switched_on_before_the_job_lets_go_when_its_work_is_stopped(
    how: str,
) -> None:
    world = waiting_in_the_dark()
    world.stop(how)
    while not world.job.phase.closed:
        world.round()
    assert world.state is PowerState.ON and not world.called
    assert world.requests[-1] == (PowerAct.POWER_ON, "fake:///n1", f"uid-of-{JOB}.undo")
    assert world.job.phase is JobPhase.CANCELLED


def test_a_person_is_called_when_a_machine_cannot_be_switched_on_again() -> None:
    world = waiting_in_the_dark()
    world.stop("cancel")
    world.provider = "refuses"
    while not world.called:
        world.round()
    assert world.job.status.message.startswith("the machine is off: this job switched it off, and")
    while not world.job.phase.closed:
        world.round()
    assert world.job.phase is JobPhase.CANCELLED


def test_a_person_is_called_with_these_words_when_a_machine_is_kept_off_for_its_replacement() -> (
    None
):
    world = DarkWorld("off-fence-replace")
    while ReplaceAct.REPLACE not in world.acts:
        world.round()
    while not world.called:
        world.round()
    assert "the machine is off: this job switched it off" in world.job.status.message


def test_a_machine_that_follows_a_late_wish_to_be_off_is_switched_on_again() -> None:
    world = DarkWorld("power-cycle")
    world.provider = "slow"
    while PowerAct.POWER_OFF not in world.acts:
        world.round()
    assert world.state is PowerState.ON
    world.stop("node gone")
    while not world.job.phase.closed:
        world.round()
    assert world.state is PowerState.ON and world.off_at is None
    assert PowerAct.POWER_ON in world.acts


def test_a_machine_that_is_gone_is_switched_on_no_more() -> None:
    world = waiting_in_the_dark()
    world.state = PowerState.GONE
    world.stop("node gone")
    while not world.job.phase.closed:
        world.round()
    assert PowerAct.POWER_ON not in world.acts and not world.called


def waiting_in_the_dark() -> DarkWorld:
    world = DarkWorld("off-wait-on")
    while world.job.status.step < 2:
        world.round()
    world.round()
    assert world.state is PowerState.OFF
    return world


def test_a_person_is_called_when_a_job_that_waits_for_its_next_rung_left_the_machine_off() -> None:
    world = waiting_in_the_dark()
    status = {"phase": JobPhase.AWAITING_PERMIT, "permit": None}
    world.job = world.job.having(**status)
    world.stop("cancel")
    world.provider = "refuses"
    while not world.called:
        world.round()
    assert world.job.status.message.startswith("the machine is off")


def test_a_job_that_left_the_machine_off_is_not_superseded() -> None:
    job = waiting_in_the_dark().job.having(phase=JobPhase.NEEDS_HUMAN)
    assert not may_be_superseded(job)


def test_the_machine_of_a_node_that_is_gone_is_the_one_that_was_asked() -> None:
    world = waiting_in_the_dark()
    assert world.job.record is None or "machine" not in world.job.record.output
    assert machine_of(world.job, None).provider_id == "fake:///n1"
