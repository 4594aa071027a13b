"""An operator's clock that is set, or a new leader whose clock differs, makes no step late.

Every wait of `test_nobody_heard.WAITS` is looked at in its middle by a clock that is ten minutes
ahead or behind, everybody being heard all the time: nothing fails, nothing is asked of anybody, and
what is still silent has failed once its whole time has passed by the new clock.
"""

from datetime import datetime, timedelta
from typing import Any

import pytest
from support.clock import T0, FakeClock
from support.power_world import FakeHost
from support.remedy_builders import (
    DRAIN,
    FAULTY,
    HEALED,
    OURS,
    RESTART,
    a_job,
    a_record,
    an_object,
    asked,
    granted,
    running,
    seen,
)
from support.remedy_world import FakeWorld, closed
from unit.remedy.test_nobody_heard import WAITS, a_proof, has_failed, look

from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.remedyoperationjob import StepState
from kubenode.runtime.term import LONGEST_AGAIN, LONGEST_OFF, NEXT_REPORT
from remedy.job.clockterm import ClockTerm
from remedy.job.model import CloseReason, JobAct
from remedy.job.power_record import PowerAct
from remedy.job.silence import has_passed
from remedy.job.step import step
from remedy.job.wake import requeue_at

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
REAL = T0 + 10 * SECOND
"""When the clock is set, by the clock that was right before."""
JUMPS = [10 * MINUTE, -10 * MINUTE]
REBOOT: dict[str, Any] = {
    "name": "reboot",
    "steps": [{"cordon": {}}, {"reboot": {"via": ["Provider"]}}],
    "verify": {"for": "1m", "timeout": "5m"},
}


def by(now: datetime, since: datetime) -> dict[str, Any]:
    """Heard without a gap by a clock that was set, or a leader that began, at `since`."""
    return {"hearing_since": now - HOUR, "clock_since": since}


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("name", WAITS)
def test_a_wait_goes_on_when_the_clock_was_set_in_its_middle(name: str, jump: timedelta) -> None:
    wait, since = WAITS[name], REAL + jump
    for later in (timedelta(0), SECOND, NEXT_REPORT, wait.deadline - T0 - SECOND):
        now = since + later
        after, act, world = look(wait, now, **by(now, since))
        record = after.record
        assert (after.phase, after.status.step) == (wait.job.phase, 0)
        assert record is not None and record.state is StepState.RUNNING
        assert set(record.output) == set(wait.job.record.output if wait.job.record else ())
        assert act is JobAct.NONE or act is PowerAct.POWER_ON, "a state is wished for again"
        again = requeue_at(after, world)
        assert again is not None and again <= now + MINUTE


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("name", WAITS)
def test_who_stays_silent_has_failed_after_its_whole_time_by_the_new_clock(
    name: str, jump: timedelta
) -> None:
    wait, since = WAITS[name], REAL + jump
    end = since + (wait.deadline - T0)
    if jump < timedelta(0) and end > T0:
        end = max(end, wait.deadline)  # by then the old instant is no longer in the future
    assert has_failed(wait, end, **by(end, since))
    world = seen(now=end - SECOND, **{**wait.sees, **by(end - SECOND, since)})
    again = requeue_at(wait.job, world)
    assert again is not None and again <= end + SECOND * 60


@pytest.mark.parametrize("jump", [*JUMPS, timedelta(days=3), -timedelta(days=3)])
def test_no_rung_follows_a_restart_under_way_when_the_clock_was_set(jump: timedelta) -> None:
    status = running(0, asked(0))
    status["permit"] = {**status["permit"], "class": "Node"}
    job = a_job(RESTART, REBOOT, status=status)
    now = REAL + jump
    world = seen(now=now, node=OURS, permit=granted(timedelta(days=9)), **by(now, now))
    after, act = step(job, world)
    assert (after, act) == (job, JobAct.NONE) or act is JobAct.RENEW_PERMIT


@pytest.mark.parametrize("jump", JUMPS)
def test_a_wait_step_lasts_at_least_as_long_as_it_says_when_the_clock_was_set(
    jump: timedelta,
) -> None:
    rung = {"name": "r", "steps": [{"wait": {"for": "5m"}}, {"cordon": {}}]}
    job = a_job(rung, status=running(0, a_record(0, "wait")))
    since = REAL + jump

    def at_step(now: datetime) -> int:
        return step(job, seen(now=now, **by(now, since)))[0].status.step

    assert at_step(since) == 0
    assert at_step(since + 5 * MINUTE - SECOND) == 0
    assert at_step(max(since, T0) + 5 * MINUTE) == 1


@pytest.mark.parametrize("jump", JUMPS)
def test_a_proof_stands_for_its_whole_time_when_the_clock_was_set(jump: timedelta) -> None:
    proving, since = a_proof(), REAL + jump
    job = proving.having(evidence_false_since=T0)

    def reason(now: datetime) -> CloseReason | None:
        world = seen(now=now, node=OURS, fault=HEALED, **by(now, since))
        return step(job, world)[0].close_reason

    assert reason(since) is None
    assert reason(since + 2 * MINUTE - SECOND) is None
    assert reason(max(since, T0) + 2 * MINUTE) is CloseReason.PROVEN


@pytest.mark.parametrize("jump", JUMPS)
def test_no_rung_follows_for_want_of_a_proof_when_the_clock_was_set(jump: timedelta) -> None:
    proving, since = a_proof(), REAL + jump

    def phase(now: datetime) -> JobPhase:
        world = seen(now=now, node=OURS, fault=FAULTY, **by(now, since))
        return step(proving, world)[0].phase

    assert phase(since) is JobPhase.VERIFYING
    assert phase(since + 10 * MINUTE - SECOND) is JobPhase.VERIFYING
    assert phase(max(since, T0) + 10 * MINUTE) is JobPhase.NEEDS_HUMAN


def test_a_long_wait_is_begun_anew_for_an_hour_at_most() -> None:
    job = a_job(status={"phase": "AwaitingApproval"}, mode="Approve")
    over = job.created + job.spec.approval.expires_after
    assert job.spec.approval.expires_after > LONGEST_AGAIN
    for now, ends in ((over, False), (over - SECOND + LONGEST_AGAIN, True)):
        world = seen(now=now, hearing_since=T0, clock_since=over - SECOND)
        after, _ = step(job, world)
        assert (after.close_reason is CloseReason.APPROVAL_EXPIRED) is ends


def over_at(pause: timedelta, jump: timedelta = timedelta(0)) -> timedelta:
    """After which time a wait of ten minutes is over when every `pause` a new term begins, whose
    clock differs from the one before by `jump`, there and back.
    """
    length, now, skew = 10 * MINUTE, T0, timedelta(0)
    while now < T0 + timedelta(days=30):
        world = seen(now=now + skew, clock_since=now + skew, hearing_since=T0 - HOUR)
        late = seen(now=now + pause + skew, clock_since=now + skew, hearing_since=T0 - HOUR)
        assert not has_passed(world, T0, T0 + length), "no term ends a wait as it begins"
        if has_passed(late, T0, T0 + length):
            return now + pause - T0
        now, skew = now + pause, timedelta(0) if skew else jump
    raise AssertionError("the wait never ends")


@pytest.mark.parametrize("jump", [timedelta(0), *JUMPS])
def test_a_wait_ends_however_often_the_leader_or_the_clock_changes(jump: timedelta) -> None:
    assert over_at(20 * MINUTE, jump) <= 30 * MINUTE, "a quiet term is enough"
    assert over_at(5 * MINUTE, jump) <= LONGEST_OFF + HOUR


def test_an_approval_does_not_expire_when_the_api_servers_clock_is_ahead_of_ours() -> None:
    job = a_job(status={"phase": "AwaitingApproval"}, mode="Approve")
    now = job.created - 2 * SECOND
    world = seen(now=now, hearing_since=now - HOUR, clock_since=now - timedelta(days=30))
    assert step(job, world)[0].close_reason is None


def test_a_term_begins_with_the_first_question_and_anew_when_the_clock_was_set() -> None:
    clock = FakeClock()
    term = ClockTerm(clock)
    clock.step(HOUR)
    began = clock.now()
    assert term.since() == began
    clock.step(5 * MINUTE)
    assert term.since() == began
    for jump in JUMPS:
        clock.step(MINUTE)
        clock.set_wall(jump)
        assert term.since() == clock.now()
        clock.step(MINUTE)
        assert term.since() == clock.now() - MINUTE


# -- the whole of it -------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("new_leader", [False, True])
@pytest.mark.exhaustive
async def test_a_ladder_ends_alike_at_whichever_look_the_clock_is_set(
    jump: timedelta, new_leader: bool
) -> None:
    """The host does what it is asked, once; no second rung follows."""
    for n in range(1, 100):
        world = FakeWorld(an_object(DRAIN, REBOOT), host=FakeHost(up_after=MINUTE))
        world.term, looks = ClockTerm(world.clock), 0

        def until(world: FakeWorld, n: int = n) -> bool:
            nonlocal looks
            looks += 1
            if looks == n:
                world.clock.set_wall(jump)
                world.term = ClockTerm(world.clock) if new_leader else world.term
            return closed(world)

        await world.run(until)
        assert world.obj.status.phase is JobPhase.SUCCEEDED, (n, world.obj.status.message)
        assert len(world.restarts) == 1 and not world.host.asked, (n, world.host.asked)
        assert not world.unschedulable and world.permits == {}
        if looks < n:
            return
    raise AssertionError("the ladder has more looks than were tried")
