"""The initial wait of a job: it is there at once, and begins nothing before the wait is over."""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
from support.clock import T0, FakeClock
from support.remedy_builders import (
    DRAIN,
    FAULTY,
    HEALED,
    NODE,
    RESTART,
    TELL,
    a_job,
    an_object,
    seen,
)
from support.remedy_hand import Hands
from support.remedy_world import FakeWorld

from kubenode.api.v1alpha1 import HoldReason, JobPhase
from kubenode.api.v1alpha1.noderemedier import NodeRemedierSpec
from remedy.job.clockterm import ClockTerm
from remedy.job.initialwait import DOUBTED, unbegun, waits_for, waits_until
from remedy.job.model import Act, CloseReason, FaultAssessment, Job, JobAct, JobObservation
from remedy.job.moves import SETTLES
from remedy.job.step import step
from remedy.job.supersession import may_be_superseded
from remedy.job.wake import requeue_at
from remedy.remedier.past import Past
from rules.truth import Truth

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
LONG_AGO = T0 - timedelta(days=2)
UNKNOWN = FaultAssessment(Truth.UNKNOWN, Truth.FALSE, agreed=True)
GUARDED = replace(FAULTY, guards=Truth.TRUE)
DISPUTED = replace(FAULTY, agreed=False)
FAULTS = [FAULTY, HEALED, UNKNOWN, GUARDED, DISPUTED]
DEFAULTS: dict[str, Any] = {"groupWait": "10s", "startupGrace": "5m"}
HARMLESS = {JobAct.NONE, JobAct.ADD_FINALIZER, JobAct.ADOPT_CORDON}


def a_wait(seconds: float = 10, reason: str = "GroupWait", **changes: Any) -> dict[str, Any]:
    return {
        "since": T0.isoformat(),
        "notBefore": (T0 + seconds * SECOND).isoformat(),
        "reason": reason,
        "groupWait": "10s",
        "startupGrace": "5m",
        **changes,
    }


def settled(job: Job, world: JobObservation) -> tuple[Job, Act]:
    """The job once nothing changes any more, and the act that is chosen then."""
    for _ in range(20):
        after, act = step(job, world)
        if after == job:
            return job, act
        job = after
    raise AssertionError(job.status)


@pytest.mark.parametrize("mode", ["Enforce", "Approve"])
@pytest.mark.parametrize("rung", [DRAIN, RESTART, TELL], ids=lambda rung: rung["name"])
@pytest.mark.parametrize("reason", ["GroupWait", "StartupGrace"])
def test_job_begins_nothing_before_its_wait_is_over_whatever_is_seen(
    mode: str, rung: dict[str, Any], reason: str
) -> None:
    job = a_job(rung, mode=mode, initialWait=a_wait(reason=reason))
    for fault, fresh, moment in product(FAULTS, (True, False), (0.0, 5.0, 9.999)):
        world = seen(now=T0 + moment * SECOND, fault=fault, fresh=fresh, permit=None)
        after, act = settled(job, world)
        assert act in HARMLESS and after.phase is JobPhase.PENDING, (fault, fresh, moment)
        assert after.status.permit is None and after.status.steps == []
        gone = fault is HEALED and fresh
        wanted = HoldReason.FAULT_UNKNOWN if gone else reason
        assert after.status.hold is not None and after.status.hold.reason == wanted


@pytest.mark.parametrize(
    ("mode", "rung", "phase"),
    [
        ("Enforce", DRAIN, JobPhase.AWAITING_PERMIT),
        ("Enforce", TELL, JobPhase.RUNNING),
        ("Approve", DRAIN, JobPhase.AWAITING_APPROVAL),
    ],
)
def test_job_begins_right_after_its_wait_while_the_fault_is_plain(
    mode: str, rung: dict[str, Any], phase: JobPhase
) -> None:
    waits = settled(a_job(rung, mode=mode, initialWait=a_wait()), seen())[0]
    after, act = step(waits, seen(now=T0 + 10 * SECOND))
    assert (after.phase, after.status.hold, act) == (phase, None, JobAct.NONE)
    assert after.status.timeline.job_created == after.created
    for fault in (UNKNOWN, GUARDED, DISPUTED):
        held = settled(waits, seen(now=T0 + HOUR, fault=fault))[0]
        assert held.phase is JobPhase.PENDING and held.status.hold is not None, fault


def test_job_of_an_earlier_version_has_no_wait() -> None:
    after, _ = step(a_job(DRAIN), seen())
    assert after.phase is JobPhase.AWAITING_PERMIT
    assert not unbegun(a_job(DRAIN)) and waits_for(a_job(DRAIN)) is None


def test_wait_tells_its_rung_and_the_rules_that_lost() -> None:
    job = a_job(RESTART, DRAIN, startRung=1, initialWait=a_wait())
    after = settled(job, seen())[0]
    assert (after.status.rung, after.status.timeline.job_created) == (1, None)
    assert (waits_for(after), waits_until(after)) == (HoldReason.GROUP_WAIT, T0 + 10 * SECOND)
    assert requeue_at(after, seen()) == T0 + 10 * SECOND


# -- a fault that goes and comes back --------------------------------------------------------------


def test_fault_that_stays_away_ends_the_job_which_counts_for_nothing() -> None:
    job = settled(a_job(initialWait=a_wait(300, "StartupGrace")), seen())[0]
    away = settled(job, seen(now=T0 + MINUTE, fault=HEALED))[0]
    assert away.phase is JobPhase.PENDING, "a detector that restarts takes nothing away"
    assert requeue_at(away, seen(now=T0 + MINUTE)) == T0 + MINUTE + SETTLES
    over = settled(away, seen(now=T0 + MINUTE + SETTLES, fault=HEALED))[0]
    assert (over.phase, over.close_reason) == (JobPhase.CANCELLED, CloseReason.FAULT_GONE)
    obj = an_object(initialWait=a_wait(300, "StartupGrace"))
    past = Past.of(obj.model_copy(update={"status": over.status}))
    assert not past.acted and past.acted_at is None
    assert not past.blocks(T0 + HOUR, T0 + HOUR) and not past.on_probation(T0 + 2 * MINUTE)


def test_group_wait_counts_anew_when_the_fault_comes_back() -> None:
    job = settled(a_job(initialWait=a_wait()), seen())[0]
    away = settled(job, seen(now=T0 + 5 * SECOND, fault=HEALED))[0]
    back = settled(away, seen(now=T0 + 9 * SECOND))[0]
    assert waits_until(back) == T0 + 19 * SECOND
    assert settled(back, seen(now=T0 + 18 * SECOND))[0].phase is JobPhase.PENDING
    assert step(back, seen(now=T0 + 19 * SECOND))[0].phase is JobPhase.AWAITING_PERMIT


def test_unknown_evidence_neither_ends_a_waiting_job_nor_lets_it_begin() -> None:
    job = settled(a_job(initialWait=a_wait()), seen())[0]
    for world in (seen(fault=UNKNOWN), seen(fault=HEALED, fresh=False)):
        late = settled(job, replace(world, now=T0 + 2 * MINUTE))[0]
        assert (late.phase, late.close_reason) == (JobPhase.PENDING, None)


@pytest.mark.parametrize("blip", [False, True], ids=["unknown", "false and then unknown"])
def test_doubt_after_the_wait_ends_the_job_and_leaves_the_fault_to_a_new_one(blip: bool) -> None:
    job = settled(a_job(initialWait=a_wait()), seen())[0]
    begun = T0 + 10 * SECOND
    job = settled(job, seen(now=begun, fault=HEALED if blip else UNKNOWN))[0]
    early = settled(job, seen(now=begun + DOUBTED - SECOND, fault=UNKNOWN))[0]
    assert (early.phase, early.close_reason) == (JobPhase.PENDING, None)
    blind = settled(early, seen(now=begun + DOUBTED, fault=UNKNOWN, fresh=False))[0]
    assert blind.phase is JobPhase.PENDING, "our own blindness ends nothing"
    over = settled(early, seen(now=begun + DOUBTED, fault=UNKNOWN))[0]
    assert (over.phase, over.close_reason) == (JobPhase.CANCELLED, CloseReason.FAULT_GONE)
    assert over.status.steps == [] and over.status.permit is None
    obj = an_object(initialWait=a_wait())
    past = Past.of(obj.model_copy(update={"status": over.status}))
    assert not past.blocks(begun + DOUBTED, begun + DOUBTED)


# -- boots, clocks, restarts -----------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["GroupWait", "StartupGrace"])
def test_boot_during_the_wait_begins_startup_grace_anew(reason: str) -> None:
    job = settled(a_job(initialWait=a_wait(reason=reason)), seen())[0]
    booted = T0 + 9 * SECOND
    after = settled(job, seen(now=T0 + 10 * SECOND, booted_at=booted))[0]
    assert (waits_for(after), waits_until(after)) == (HoldReason.STARTUP_GRACE, booted + 5 * MINUTE)
    late = seen(now=booted + 5 * MINUTE, booted_at=booted)
    assert step(after, late)[0].phase is JobPhase.AWAITING_PERMIT
    without = a_job(initialWait=a_wait(reason=reason, startupGrace="0s"))
    assert step(without, seen(now=T0 + 10 * SECOND, booted_at=booted))[0].phase is not (
        JobPhase.PENDING
    )


@pytest.mark.parametrize("ahead", [-10 * MINUTE, timedelta(0), 10 * MINUTE])
def test_leader_with_another_clock_waits_the_whole_time_again(ahead: timedelta) -> None:
    """Late by at most the wait itself, and never too early."""
    job = settled(a_job(initialWait=a_wait(300, "StartupGrace")), seen())[0]
    took_over = T0 + MINUTE + ahead
    for passed in (timedelta(0), 4 * MINUTE):
        world = seen(now=took_over + passed, clock_since=took_over)
        assert settled(job, world)[0].phase is JobPhase.PENDING, passed
    end = max(took_over + 5 * MINUTE, T0 + 5 * MINUTE)
    over = seen(now=end, clock_since=took_over)
    assert step(job, over)[0].phase is JobPhase.AWAITING_PERMIT


async def test_job_waits_on_after_a_restart_of_the_operator() -> None:
    clock = FakeClock()
    world = FakeWorld(an_object(RESTART, initialWait=a_wait(60)), clock=clock)
    world.term = ClockTerm(clock)
    await world.controller().reconcile(world.obj.metadata.name)
    clock.step(30 * SECOND)
    world.term = ClockTerm(clock)
    await world.controller().reconcile(world.obj.metadata.name)
    assert (world.obj.status.phase, world.permits) == (JobPhase.PENDING, {})
    clock.step(60 * SECOND)
    await world.controller().reconcile(world.obj.metadata.name)
    assert world.obj.status.phase is JobPhase.RUNNING and world.permits


# -- who takes its place ---------------------------------------------------------------------------


def test_waiting_job_gives_way_at_once_and_a_persons_word_ends_it() -> None:
    job = settled(a_job(initialWait=a_wait()), seen())[0]
    assert may_be_superseded(job)
    after, _ = step(job, seen(stronger="strong"))
    assert (after.phase, after.close_reason) == (JobPhase.CANCELLED, CloseReason.SUPERSEDED)
    told = replace(job, spec=job.spec.model_copy(update={"cancel": True}))
    assert step(told, seen())[0].close_reason is CloseReason.PERSON_CANCELLED
    assert step(job, seen(node=None))[0].close_reason is CloseReason.NODE_GONE


# -- the whole story, with default settings --------------------------------------------------------


async def test_fault_has_its_job_in_the_same_reconcile_with_default_settings() -> None:
    hands = Hands()
    await hands.rule(when={"condition": {"type": "Sick", "status": "True"}}, **DEFAULTS)
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0))
    await hands.decide()
    (job,) = hands.made()
    wait = job.spec.initial_wait
    assert wait is not None
    defaults = NodeRemedierSpec.model_fields
    assert defaults["group_wait"].default == 10 * SECOND, "DEFAULTS are the product's"
    assert defaults["startup_grace"].default == 5 * MINUTE
    assert (wait.not_before, wait.reason) == (T0 + 10 * SECOND, "GroupWait")
    assert (wait.group_wait, wait.startup_grace) == (10 * SECOND, 5 * MINUTE)


async def test_nothing_is_asked_or_done_before_the_wait_is_over_and_all_right_after() -> None:
    world = FakeWorld(an_object(RESTART, initialWait=a_wait()))
    seen_phases: dict[datetime, JobPhase] = {}
    for _ in range(10):
        await world.controller().reconcile(world.obj.metadata.name)
        seen_phases[world.clock.now()] = world.obj.status.phase
        assert world.writes == ["save Pending"], "one write, however often it is looked at"
        assert (world.permits, world.restarts) == ({}, [])
        world.clock.step(SECOND)
    assert set(seen_phases.values()) == {JobPhase.PENDING}
    await world.controller().reconcile(world.obj.metadata.name)
    assert world.obj.status.phase is JobPhase.RUNNING and world.permits
    held = [event for event in world.events if event.reason == "JobHeld"]
    assert len(held) == 1 and held[0].message.startswith(f"node {NODE}: GroupWait: it waits")
