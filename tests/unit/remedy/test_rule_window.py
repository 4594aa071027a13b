"""`window` of a rule and of a rung: when a job and its rungs may begin."""

from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0
from support.remedy_builders import FAULTY, HEALED, RESTART, TELL, a_job, granted, seen
from support.replay_world import REBOOT, a_rule, a_world, after, ages, at, feed, sick

from kubenode.api.recurrence import inside, opens_at
from kubenode.api.v1alpha1 import JobPhase, Reason
from kubenode.api.v1alpha1.window import TimeWindow, Weekday
from remedy.job.model import CloseReason, JobAct, JobActResult
from remedy.job.step import step
from remedy.job.wake import requeue_at
from rules.checks import check
from rules.rule import CompileError, RuleVersion
from simulation.replay.world import heals

HOUR = 3600
NIGHT = {"from": "22:00", "to": "04:00"}
"""The simulated fleet starts on a Monday at 12:00 UTC: the window opens after ten hours."""
OPENS, CLOSES = 10 * HOUR, 16 * HOUR
NOTIFY: list[dict[str, Any]] = [{"name": "tell", "steps": [{"notify": {}}]}]


# -- of a rule ------------------------------------------------------------------------------------


def test_no_job_begins_before_the_window_opens() -> None:
    world = a_world(a_rule(window=NIGHT))
    sick(world, 0)
    at(world, OPENS - 1)
    assert (ages(world), world.waits("a")) == ([], {"sick": "WindowClosed"})
    assert world.waiting("a")[0].until == world.start + timedelta(seconds=OPENS)
    at(world, OPENS + 1)
    assert ages(world) == [("a", "sick", OPENS)]


def test_a_fault_that_ends_before_it_makes_no_job() -> None:
    world = a_world(a_rule(window=NIGHT))
    sick(world, 0)
    sick(world, OPENS - 60, on=False)
    at(world, CLOSES)
    assert ages(world) == []


def test_a_weaker_rule_acts_outside_the_window_of_a_stronger_one() -> None:
    world = a_world(a_rule(window=NIGHT, priority=700), a_rule("tell", ladder=NOTIFY))
    sick(world, 0)
    at(world, HOUR)
    assert [rule for _, rule, _ in ages(world)] == ["tell"]


@pytest.mark.exhaustive
def test_what_began_in_the_window_goes_on_after_it_but_the_next_rung_waits() -> None:
    world = a_world(a_rule(window=NIGHT))
    begins = CLOSES - 5 * 60
    sick(world, begins - 30)
    at(world, CLOSES + HOUR)
    (job,) = world.jobs
    assert after(world, job) == {"reboot": begins}
    assert job.hold is not None and job.hold.reason == "WindowClosed"
    assert job.hold.message.startswith("the window of the rule is closed until 2026-01-06T22:00:00")
    at(world, OPENS + 24 * HOUR + 60)
    assert after(world, job)["replace"] == OPENS + 24 * HOUR


@pytest.mark.parametrize("mode", ["Approve", "DryRun"])
def test_nobody_is_asked_and_no_dry_run_counts_outside_the_window(mode: str) -> None:
    world = a_world(a_rule(window=NIGHT, mode=mode))
    sick(world, 0)
    at(world, OPENS - 1)
    assert ages(world) == []
    at(world, OPENS + 1)
    assert len(ages(world)) == 1


def test_a_rule_that_infers_takes_no_window() -> None:
    with pytest.raises(CompileError, match=r"spec\.window: a rule that infers makes no job"):
        check(RuleVersion("r@1", a_rule(infer={"fact": "rack.bad"}, window=NIGHT)))


# -- of a rung ------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_rung_waits_for_its_window_and_the_others_do_not() -> None:
    ladder = [{**NOTIFY[0], "verify": {"timeout": "10m"}}, {**REBOOT[0], "window": NIGHT}]
    world = a_world(a_rule(ladder=ladder), heals=heals)
    sick(world, 0)
    at(world, OPENS + HOUR)
    (job,) = world.jobs
    assert after(world, job) == {"tell": 30, "reboot": OPENS}
    assert job.close_reason is CloseReason.PROVEN


def test_a_fault_that_ends_while_the_rung_waits_ends_the_job() -> None:
    world = a_world(a_rule(ladder=[{**REBOOT[0], "window": NIGHT}]))
    sick(world, 0)
    feed(world, HOUR, "a", condition={"type": "Sick", "status": "False"})
    at(world, 2 * HOUR)
    (job,) = world.jobs
    assert (job.close_reason, job.acts) == (CloseReason.FAULT_GONE, [])


@pytest.mark.exhaustive
def test_a_first_rung_that_only_notifies_waits_too() -> None:
    world = a_world(a_rule(ladder=[{**NOTIFY[0], "window": NIGHT}]))
    sick(world, 0)
    at(world, OPENS - 1)
    (job,) = world.jobs
    assert (job.phase, job.steps) == (JobPhase.AWAITING_PERMIT, [])
    at(world, OPENS + 1)
    assert [run.name for run in job.steps] == ["notify"]


OPEN, SHUT = {"from": "00:00", "to": "00:00"}, {"from": "03:00", "to": "04:00"}
"""T0 is before 03:00 or after 04:00 of its day, as the next test checks."""


def test_the_builders_time_is_outside_the_closed_window() -> None:
    assert opens_at(TimeWindow.model_validate(SHUT), T0) is not None
    assert opens_at(TimeWindow.model_validate(OPEN), T0) is None


@pytest.mark.parametrize(
    ("rung", "rule_window", "rung_window", "fault", "asked"),
    list(
        product((RESTART, TELL), (None, OPEN, SHUT), (None, OPEN, SHUT), (FAULTY, HEALED), (0, 1))
    ),
)
def test_a_rung_begins_only_if_both_windows_are_open(
    rung: dict[str, Any], rule_window: Any, rung_window: Any, fault: Any, asked: bool
) -> None:
    """Over the product. `asked`: the permit was granted at the moment at which a window closed."""
    job = a_job(
        {**rung, "window": rung_window}, window=rule_window, status={"phase": "AwaitingPermit"}
    )
    result = JobActResult(JobAct.ASK_PERMIT, granted()) if asked else None
    world = seen(fault=fault, act_result=result)
    job_after, act = step(job, world)
    if fault is HEALED:
        assert job_after.close_reason is CloseReason.FAULT_GONE
    elif SHUT in (rule_window, rung_window) and not asked:
        assert job_after.phase is JobPhase.AWAITING_PERMIT and act is JobAct.NONE
        hold = job_after.status.hold
        assert hold is not None and hold.reason == Reason.WINDOW_CLOSED
        again = requeue_at(job_after, world)
        assert again is not None and hold.look_again_at is not None
        assert T0 < again <= hold.look_again_at
    elif rung is TELL or asked:
        assert job_after.phase is JobPhase.RUNNING
    else:
        assert act is JobAct.ASK_PERMIT


# -- against the minutes of two weeks --------------------------------------------------------------


@given(
    st.lists(st.sampled_from(list(Weekday)), min_size=1, max_size=7, unique=True),
    st.integers(0, 1439),
    st.integers(0, 1439),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York"]),
    st.integers(0, 2 * 365 * 24 * 3600),
)
def test_it_opens_when_the_time_window_of_kube_defender_does(
    days: list[Weekday], begin: int, end: int, zone: str, seconds: int
) -> None:
    window = TimeWindow(
        days=days,
        from_=f"{begin // 60:02}:{begin % 60:02}",
        to=f"{end // 60:02}:{end % 60:02}",
        time_zone=zone,
    )
    now = T0 + timedelta(seconds=seconds)
    opens = opens_at(window, now)
    is_open, _ = inside(window, now)
    assert (opens is None) is is_open
    if opens is not None:
        assert opens > now
        assert inside(window, opens)[0] and not inside(window, opens - timedelta(seconds=1))[0]
