"""A deadline that passes while nobody can be heard is nobody's fault: it counts once they can be.

Every wait that ends for want of news is a row of WAITS, with its deadline. Each is looked at right
after it, over what was heard since when: only who was heard and said nothing has failed.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.clock import T0, FakeClock
from support.power_world import FakeHost
from support.remedy_builders import (
    FAULTY,
    HEALED,
    JOB,
    PERMIT,
    a_job,
    a_record,
    an_object,
    asked,
    running,
    seen,
)
from support.remedy_world import FakeWorld, closed

from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.hostevent import HostEventPhase
from kubenode.api.v1alpha1.remedyoperationjob import StepState
from kubenode.providers.port import Can, Power, PowerState
from kubenode.runtime.term import NEXT_REPORT
from remedy.handover.observation import Handed, HandoverObservation
from remedy.job.continuity import Hearing
from remedy.job.marks import MARKS
from remedy.job.model import Act, CloseReason, Job, JobAct, JobObservation, NodeObservation, Pods
from remedy.job.records import FIRST_CHECK
from remedy.job.step import step
from remedy.job.wake import requeue_at
from remedy.plannedevents.observation import EventObservation
from remedy.power.observation import PowerObservation, ReplacementObservation
from remedy.rollback.observation import Back, RollbackObservation

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
GRACE = 5 * SECOND
NODE = NodeObservation(unschedulable=True, cordoned_by=JOB, boot_id="boot-1", annotations=MARKS)
ON = PowerObservation("fake", Can(off=True, reset=True), Power(PowerState.ON, "on", T0))
TEN: dict[str, Any] = {"timeout": "10m"}
EVENT = EventObservation("e1", HostEventPhase.SCHEDULED, external_id="x")


@dataclass(frozen=True)
class Wait:
    """A job that waits, until when, and what it sees beside."""

    job: Job
    deadline: datetime
    sees: dict[str, Any]


def a_wait(
    step_: dict[str, Any],
    record: dict[str, Any],
    deadline: datetime,
    agent: dict[str, Any] | None = None,
    **sees: Any,
) -> Wait:
    name = next(iter(step_))
    status = running(0, {**a_record(0, name), **record}, permit=PERMIT | {"class": "Node"})
    if agent is not None:
        status["agent"] = {"requests": {"r0s0a1": agent}}
    rung = {"name": "r", "steps": [step_, {"wait": {"for": "1s"}}]}
    spec = {"hostEvents": ["e1"]} if "events" in sees else {}
    job = replace(a_job(rung, status=status, **spec), finalizer=True)
    return Wait(job, deadline, {"node": NODE, **sees})


def by_provider(word: str) -> dict[str, Any]:
    return {
        "by": "Provider",
        "requestID": "r0s0a1",
        "askedAt": T0.isoformat(),
        "bootID": "boot-1",
        "output": {"asked": word, "heard": "taken", "was": "On (on)", "path": "InstanceGroup"},
    }


BY_AGENT = asked(0) | {"expiresAt": (T0 + 3 * MINUTE).isoformat()}
BEGAN = {"state": "Running", "startedAt": T0.isoformat()}
RESTART: dict[str, Any] = {"agent": {"action": "RestartUnit", "unit": "a.service", "timeout": "3m"}}
REBOOT: dict[str, Any] = {"reboot": {"via": ["Agent", "Provider"], "timeout": "9m"}}
THEN_STOP = {"onTimeout": "Stop", **TEN}

WAITS: dict[str, Wait] = {
    "agent does not answer": a_wait(RESTART, BY_AGENT, T0 + 3 * MINUTE + GRACE),
    "agent does not finish": a_wait(RESTART, BY_AGENT, T0 + 6 * MINUTE + GRACE, BEGAN),
    "agent collects nothing": a_wait(
        {"collect": {"timeout": "3m"}}, BY_AGENT | {"name": "collect"}, T0 + 3 * MINUTE + GRACE
    ),
    "agent does not say that it boots": a_wait(
        REBOOT, BY_AGENT | {"name": "reboot"}, T0 + 3 * MINUTE + GRACE
    ),
    "agent began, no boot": a_wait(REBOOT, BY_AGENT | {"name": "reboot"}, T0 + 6 * MINUTE, BEGAN),
    "no boot by the agent": a_wait(
        {"reboot": {"via": ["Agent"], **TEN}},
        BY_AGENT | {"name": "reboot", "expiresAt": (T0 + 10 * MINUTE).isoformat()},
        T0 + 10 * MINUTE,
        BEGAN,
    ),
    "no boot by reset": a_wait({"reboot": TEN}, by_provider("reset"), T0 + 10 * MINUTE, power=ON),
    "no boot by off and on": a_wait(
        {"powerCycle": TEN}, by_provider("on"), T0 + 10 * MINUTE, power=ON
    ),
    "not replaced": a_wait(
        {"replace": TEN},
        by_provider("replace"),
        T0 + 10 * MINUTE,
        replacing=ReplacementObservation("InstanceGroup", "fake:///n1", "pool-a"),
    ),
    "not rolled back": a_wait(
        {"rollbackComponent": {"component": "containerd", **TEN}},
        by_provider("rollback"),
        T0 + 10 * MINUTE,
        rollback=RollbackObservation(Back.GOING),
    ),
    "event is not over": a_wait(
        {"waitForEvent": {"until": ["NewBootID"], **TEN}},
        {"bootID": "boot-1"},
        T0 + 10 * MINUTE,
        events=(EVENT,),
    ),
    "event is not let go ahead": a_wait(
        {"approveEvent": TEN}, {"output": {"e1": "Asked"}}, T0 + 10 * MINUTE, events=(EVENT,)
    ),
    "agent does not let it go ahead": a_wait(
        {"approveEvent": TEN},
        BY_AGENT | {"name": "approveEvent"},
        T0 + 3 * MINUTE + GRACE,
        events=(EVENT,),
    ),
    "nobody approves": a_wait({"waitForApproval": TEN}, {}, T0 + 10 * MINUTE),
    "object is not done": a_wait(
        {"createObject": {"template": "t", **TEN}},
        {"output": {"made": "yes"}},
        T0 + 10 * MINUTE,
        handed=HandoverObservation(Handed.GOING, "/a/b"),
    ),
    "pods do not leave": a_wait({"migrate": THEN_STOP}, {}, T0 + 10 * MINUTE, pods=Pods(1)),
}


def a_proof() -> Job:
    acted = {"type": "Acted", "status": "True", "reason": "Rung0"}
    status = {
        "phase": "Verifying",
        "step": 1,
        "conditions": [acted | {"lastTransitionTime": T0.isoformat()}],
        "steps": [asked(0, "Done")],
    }
    verify = {"for": "2m", "timeout": "10m", "checks": []}
    return a_job({"name": "r", "steps": [RESTART], "verify": verify}, status=status)


def look(wait: Wait, at: datetime, **heard: Any) -> tuple[Job, Act, JobObservation]:
    world = seen(now=at, **{**wait.sees, **heard})
    after, act = step(wait.job, world)
    return after, act, world


def goes_on(wait: Wait, at: datetime, **heard: Any) -> None:
    """Nothing has failed, nothing new is asked of anybody, and somebody will look again."""
    after, act, world = look(wait, at, **heard)
    assert after.status.step == 0 and after.phase is wait.job.phase
    record = after.record
    assert record is not None and record.state is StepState.RUNNING
    assert set(record.output) == set(wait.job.record.output if wait.job.record else ())
    assert act is JobAct.NONE
    again = requeue_at(after, world)
    assert again is not None and at < again <= at + MINUTE


def has_failed(wait: Wait, at: datetime, **heard: Any) -> bool:
    """It failed, or gave way to the next path."""
    after, _, _ = look(wait, at, **heard)
    record = next(r for r in after.status.steps if r.index == 0)
    return record.state is StepState.FAILED or "Agent" in record.output or bool(record.message)


@pytest.mark.parametrize("name", WAITS)
def test_who_was_heard_all_the_time_and_said_nothing_has_failed_at_the_deadline(name: str) -> None:
    wait = WAITS[name]
    assert has_failed(wait, wait.deadline, hearing_since=T0)
    assert has_failed(wait, wait.deadline, hearing_since=wait.deadline - NEXT_REPORT)
    assert not has_failed(wait, wait.deadline - SECOND, hearing_since=T0)


@pytest.mark.parametrize("name", WAITS)
def test_nothing_fails_while_nobody_is_heard(name: str) -> None:
    wait = WAITS[name]
    for later in (timedelta(0), 30 * MINUTE):
        goes_on(wait, wait.deadline + later, hearing_since=None)
        goes_on(wait, wait.deadline + later, fresh=False)


@pytest.mark.parametrize("name", WAITS)
def test_after_a_gap_everybody_has_the_time_of_a_report_and_no_more(name: str) -> None:
    wait = WAITS[name]
    for heard in (wait.deadline - SECOND, wait.deadline + 7 * MINUTE):
        goes_on(wait, max(wait.deadline, heard), hearing_since=heard)
        goes_on(wait, heard + NEXT_REPORT - SECOND, hearing_since=heard)
        assert has_failed(wait, heard + NEXT_REPORT, hearing_since=heard)


@pytest.mark.parametrize("name", WAITS)
def test_it_is_looked_at_again_when_the_silence_counts(name: str) -> None:
    wait = WAITS[name]
    now = wait.deadline + NEXT_REPORT - 4 * SECOND
    after, _, world = look(wait, now, hearing_since=wait.deadline)
    assert requeue_at(after, world) == wait.deadline + NEXT_REPORT or name in POLLED_ANYHOW


POLLED_ANYHOW = {"pods do not leave", "agent began, no boot"}
"""Looked at every few seconds, and once a minute: no deadline of its own."""


@pytest.mark.parametrize("name", [name for name in WAITS if "no boot" in name])
def test_a_host_that_is_seen_to_have_booted_after_the_gap_is_well(name: str) -> None:
    wait = WAITS[name]
    node = replace(NODE, boot_id="boot-2")
    at = wait.deadline + 20 * MINUTE
    after, _, _ = look(wait, at, hearing_since=at - SECOND, node=node)
    assert after.status.steps[0].state is StepState.DONE


def test_a_step_that_began_after_the_gap_has_its_own_time_and_no_more() -> None:
    wait = WAITS["agent does not answer"]
    early = replace(wait.job, created=T0 - timedelta(hours=1))
    short = replace(wait, job=early)
    assert has_failed(short, wait.deadline, hearing_since=T0 - SECOND)


def test_what_the_provider_tells_directly_is_over_at_its_time() -> None:
    wait = a_wait({"powerOff": TEN}, by_provider("off"), T0 + 10 * MINUTE, power=ON)
    assert has_failed(wait, wait.deadline, hearing_since=wait.deadline - SECOND)


def test_our_own_act_on_the_cluster_is_still_done_after_an_outage() -> None:
    wait = a_wait({"cordon": {}}, {}, T0 + 10 * MINUTE, node=replace(NODE, unschedulable=False))
    after, act, _ = look(wait, wait.deadline + SECOND, hearing_since=wait.deadline)
    assert (after, act) == (wait.job, JobAct.CORDON)


def test_a_silent_agent_is_none_before_its_next_report() -> None:
    wait = WAITS["agent collects nothing"]
    silent = replace(NODE, agent_silent=True)
    assert has_failed(wait, T0 + MINUTE, node=silent, hearing_since=T0)
    goes_on(wait, T0 + MINUTE, node=silent, hearing_since=T0 + 30 * SECOND)


def test_a_proof_has_the_time_of_a_report_and_of_verify_for_after_a_gap() -> None:
    job, until = a_proof(), T0 + 10 * MINUTE
    takes = NEXT_REPORT + 2 * MINUTE

    def phase(at: datetime, heard: datetime | None) -> JobPhase:
        return step(job, seen(now=at, node=NODE, fault=FAULTY, hearing_since=heard))[0].phase

    assert phase(until, T0) is JobPhase.NEEDS_HUMAN
    assert phase(until + 5 * MINUTE, None) is JobPhase.VERIFYING
    assert phase(until + takes - SECOND, until) is JobPhase.VERIFYING
    assert phase(until + takes, until) is JobPhase.NEEDS_HUMAN
    world = seen(now=until + takes - SECOND, node=NODE, fault=FAULTY, hearing_since=until)
    assert requeue_at(job, world) == until + takes
    began = step(job, seen(now=until, node=NODE, fault=HEALED, hearing_since=until))[0]
    well = seen(now=until + 2 * MINUTE, node=NODE, fault=HEALED, hearing_since=until)
    assert step(began, well)[0].close_reason is CloseReason.PROVEN


def test_a_check_whose_answer_could_not_be_heard_has_not_failed() -> None:
    check = {"agent": {"action": "RunCheck", "check": "disk", "timeout": "30s"}}
    job = a_proof()
    rung = {**job.spec.ladder[0].to_dict(), "verify": {"timeout": "30m", "checks": [check]}}
    request = asked(FIRST_CHECK) | {"name": "check", "requestID": "r0c0a1"}
    status = {**job.status.to_dict(), "evidenceFalseSince": (T0 - 5 * MINUTE).isoformat()}
    status["steps"] = [asked(0, "Done"), request]
    job = a_job(rung, status=status)
    end = T0 + 2 * MINUTE + GRACE

    def state(at: datetime, heard: datetime | None) -> StepState:
        world = seen(now=at, node=NODE, fault=HEALED, hearing_since=heard)
        return step(job, world)[0].status.steps[1].state

    assert state(end, T0) is StepState.FAILED
    assert state(end + MINUTE, None) is StepState.RUNNING
    assert state(end + NEXT_REPORT - SECOND, end) is StepState.RUNNING
    assert state(end + NEXT_REPORT, end) is StepState.FAILED


def test_a_persons_word_is_waited_for_as_long() -> None:
    job = a_job(status={"phase": "AwaitingApproval"}, mode="Approve")
    over = job.created + job.spec.approval.expires_after
    for heard, ends in ((T0, True), (None, False), (over - SECOND, False)):
        after, _ = step(job, seen(now=over, node=NODE, hearing_since=heard))
        assert (after.close_reason is CloseReason.APPROVAL_EXPIRED) is ends


# -- the whole of it -------------------------------------------------------------------------------


def rungs() -> tuple[dict[str, Any], ...]:
    verify = {"for": "1m", "timeout": "5m"}
    reboot = {"reboot": {"via": ["Provider"], "timeout": "3m"}}
    return (
        {"name": "reboot", "steps": [{"cordon": {}}, reboot], "verify": verify},
        {"name": "off", "steps": [{"powerOff": {}}], "verify": verify},
    )


@pytest.mark.parametrize("lasts", [3 * MINUTE, 40 * MINUTE])
async def test_a_machine_that_came_back_during_an_outage_is_not_switched_off(
    lasts: timedelta,
) -> None:
    """Its kubelet reports half a minute after the API server is back."""
    host = FakeHost(up_after=lasts + 30 * SECOND)
    world = FakeWorld(an_object(*rungs()), host=host, hung=True, needs=0)
    await world.run(lambda world: bool(host.asked))
    world.clock.step(lasts)
    world.heard_since = world.clock.now()
    await world.run(closed)
    assert world.obj.status.phase is JobPhase.SUCCEEDED
    assert "off" not in [word for word, _ in host.asked]


async def test_one_that_does_not_come_back_is_switched_off_all_the_same() -> None:
    host = FakeHost(up_after=None)
    world = FakeWorld(an_object(*rungs()), host=host, hung=True, needs=0)
    await world.run(lambda world: bool(host.asked))
    world.clock.step(40 * MINUTE)
    back = world.heard_since = world.clock.now()
    await world.run(lambda world: world.obj.status.rung == 1)
    assert NEXT_REPORT <= world.clock.now() - back < NEXT_REPORT + 20 * SECOND


# -- since when everybody is heard -----------------------------------------------------------------


class Cache:
    def __init__(self, since: float | None) -> None:
        self._since = since

    def hearing_since(self) -> float | None:
        return self._since


@pytest.mark.parametrize(
    ("caches", "witnesses", "since"),
    [
        ((10.0, 20.0), (), 20.0),
        ((10.0, None), (30.0,), None),
        ((10.0, 20.0), (30.0, 5.0), 30.0),
        ((10.0, 20.0), (None, None), 20.0),
    ],
)
def test_everybody_is_heard_since_the_last_gap_of_any_cache(
    caches: tuple[float | None, ...], witnesses: tuple[float | None, ...], since: float | None
) -> None:
    clock = FakeClock()
    clock.step(timedelta(seconds=100 - clock.monotonic()))
    heard = Hearing([Cache(at) for at in caches], [Cache(at) for at in witnesses], clock).since()
    expected = None if since is None else clock.now() - timedelta(seconds=100 - since)
    assert heard == expected
