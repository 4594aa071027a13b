"""Jobs for planned events: waited for, let go ahead, released, and what Kube Defender is told."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import combinations, count, product
from typing import Any

import pytest
from support.clock import T0
from support.outside_world import an_event
from support.remedy_builders import (
    CORDONED,
    DRAINED,
    FAULTY,
    HEALED,
    OURS,
    a_job,
    a_record,
    an_object,
    running,
    seen,
)
from support.remedy_world import FakeWorld, Reads, closed

from kubenode.api.v1alpha1 import HostEvent, JobPhase, Operation
from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from kubenode.api.v1alpha1.remedyoperationjob import StepState
from remedy.job.act import ask_for
from remedy.job.model import CloseReason, FaultAssessment, Job, JobAct, JobActResult, JobObservation
from remedy.job.observe import observe
from remedy.job.planned_events import holding
from remedy.job.step import step
from remedy.job.steps.events import EventAct
from remedy.plannedevents.access import observe_event
from remedy.plannedevents.observation import Ending, EventObservation, due_at, ending, evacuation
from remedy.power.observation import RequestOutcome
from rules.truth import Truth

MINUTE = timedelta(minutes=1)
PHASES: tuple[str | None, ...] = (*(str(p) for p in HostEventPhase), None)
UNTIL = ("Completed", "Cancelled", "NewBootID")
LATE = T0 + timedelta(hours=5)
WAIT: dict[str, Any] = {"waitForEvent": {"until": list(UNTIL), "timeout": "4h"}}


def evacuate(*more: dict[str, Any]) -> dict[str, Any]:
    steps = [{"cordon": {}}, {"migrate": {"timeout": "10m"}}, *more]
    return {"name": "evacuate", "steps": steps, "verify": {"for": "1m", "timeout": "5m"}}


def waiting(acted: bool = False, **body: Any) -> Job:
    """At step waitForEvent, the third, of a job whose host had boot-1 when it began."""
    wait = {"waitForEvent": {**WAIT["waitForEvent"], **body}}
    first = {"agent": {"action": "RestartUnit", "unit": "a.service"}} if acted else {"cordon": {}}
    rung = evacuate(wait) | {"steps": [first, {"migrate": {}}, wait]}
    before = a_record(0, "agent", "Done") if acted else CORDONED
    expires = (T0 + timedelta(hours=4)).isoformat()
    record = a_record(2, "waitForEvent", bootID="boot-1", expiresAt=expires)
    status = running(2, before, DRAINED, record, permit=None)
    return a_job(rung, status=status, hostEvents=["reboot-1"], deadline=LATE.isoformat())


def at_step(events: tuple[EventObservation, ...], **changes: Any) -> JobObservation:
    return seen(node=OURS, events=events, **changes)


def what_came(job: Job, looked: JobObservation) -> str:
    """The move, in a word."""
    after, act = step(job, looked)
    record = after.record if after.status.step == 2 else after.status.steps[2]
    assert act is JobAct.NONE and record is not None
    if after.close_reason is CloseReason.EVENT_CANCELLED:
        return "released"
    if record.state is StepState.FAILED:
        return "failed"
    return "done" if record.state is StepState.DONE else "waits"


def cases() -> Iterator[tuple[tuple[str | None, ...], tuple[str, ...], bool, bool, bool, str]]:
    phases = [(p,) for p in PHASES] + list(product(("Scheduled", "Cancelled", "Completed"), PHASES))
    untils = [u for n in (1, 2, 3) for u in combinations(UNTIL, n)]
    yield from product(phases, untils, (False, True), (False, True), (False, True), ("R", "C"))


def expected(
    phases: tuple[str | None, ...],
    until: tuple[str, ...],
    booted: bool,
    late: bool,
    acted: bool,
    on_cancel: str,
) -> str:
    over = all(p not in ("Scheduled", "AwaitingApproval", "Active") for p in phases)
    cancelled = over and "Cancelled" in phases and "Completed" not in phases
    if cancelled and not acted and on_cancel == "R":
        return "released"
    if booted and "NewBootID" in until:
        return "done"
    if cancelled:
        return "done" if acted or "Cancelled" in until else "failed"
    if over and "Completed" in until:
        return "done"
    if over and "NewBootID" not in until:
        return "failed"
    return "failed" if late else "waits"


@pytest.mark.exhaustive
def test_every_way_in_which_events_can_stand_has_its_answer() -> None:
    told = set()
    for phases, until, booted, late, acted, on_cancel in cases():
        release = {"R": "Release", "C": "Continue"}[on_cancel]
        job = waiting(acted, until=list(until), onCancel=release)
        events = tuple(an_event(f"e{n}", phase) for n, phase in enumerate(phases))
        node = replace(OURS, boot_id="boot-2" if booted else "boot-1")
        now = LATE if late else T0 + MINUTE
        looked = replace(at_step(events, now=now, fault=FaultAssessment()), node=node)
        want = expected(phases, until, booted, late, acted, on_cancel)
        assert what_came(job, looked) == want, (phases, until, booted, late, acted, on_cancel)
        told.add(want)
    assert told == {"released", "done", "failed", "waits"}


def test_an_unknown_boot_id_is_no_boot() -> None:
    job, events = waiting(), (an_event(),)
    for boot in ("", "boot-1"):
        looked = replace(at_step(events), node=replace(OURS, boot_id=boot))
        assert what_came(job, looked) == "waits"


def test_what_an_outdated_cache_says_of_events_ends_nothing() -> None:
    for phase in ("Completed", "Cancelled", None):
        looked = at_step((an_event(phase=phase),), fresh=False)
        assert what_came(waiting(), looked) == "waits"


def test_a_job_without_events_cannot_wait_for_one() -> None:
    job = waiting(until=["Completed"])
    assert what_came(job, at_step(())) == "failed"
    assert what_came(waiting(), at_step(())) == "waits"  # for the boot


@pytest.mark.parametrize("phase", ["AwaitingApproval", "AwaitingPermit", "Running"])
def test_a_cancelled_event_releases_all_in_every_phase_before_the_first_irreversible_step(
    phase: str,
) -> None:
    status: dict[str, Any] = {"phase": phase}
    if phase == "Running":
        status = running(1, CORDONED, a_record(1, "migrate"))
    job = a_job(evacuate(WAIT), status=status, hostEvents=["reboot-1"])
    cancelled = at_step((an_event(phase="Cancelled"),), fault=HEALED)
    after, _ = step(job, cancelled)
    assert after.close_reason is CloseReason.EVENT_CANCELLED
    assert after.status.message == "the planned event was cancelled"
    assert not CloseReason.EVENT_CANCELLED.outlasts_the_job


def test_an_event_that_is_cancelled_while_other_evidence_stands_releases_nothing() -> None:
    job = a_job(evacuate(), status={"phase": "AwaitingPermit"}, hostEvents=["reboot-1"])
    after, act = step(job, at_step((an_event(phase="Cancelled"),), fault=FAULTY))
    assert after.close_reason is None and act is JobAct.ASK_PERMIT


def test_an_event_that_has_begun_keeps_the_evidence_of_a_rule_for_scheduled_ones() -> None:
    active = (an_event(phase="Active"),)
    held = holding(HEALED, active)
    assert (held.evidence, held.gone) == (Truth.TRUE, Truth.FALSE)
    assert holding(HEALED, (an_event(phase="Completed"),)) is HEALED
    fault = replace(HEALED, evidence=Truth.UNKNOWN)
    assert holding(fault, active).evidence is Truth.UNKNOWN
    alert = an_event(phase="Active", class_=HostEventClass.ALERT)
    assert holding(HEALED, (alert,)) is HEALED


@pytest.mark.parametrize("phases", list(product(PHASES, repeat=2)))
def test_events_end_together_when_the_last_one_does(phases: tuple[str | None, ...]) -> None:
    events = [an_event(str(n), phase) for n, phase in enumerate(phases)]
    open_ = [p for p in phases if p in ("Scheduled", "AwaitingApproval", "Active")]
    assert (ending(events) is Ending.OPEN) == bool(open_)
    assert ending([]) is Ending.OPEN


# -- what Kube Defender is told --------------------------------------------------------------------


def test_defender_is_asked_to_evacuate_by_the_live_time_of_the_event() -> None:
    job = a_job(evacuate(), hostEvents=["reboot-1"], deadline=T0.isoformat())
    put_off = an_event(due=T0 + timedelta(hours=7))
    ask = ask_for(job, (put_off, an_event("e2", due=T0 + timedelta(hours=9))))
    assert ask.operation is Operation.EVACUATE and ask.inevitable
    assert ask.deadline == T0 + timedelta(hours=7)


def test_a_job_whose_events_are_over_or_no_planned_ones_asks_for_a_repair() -> None:
    job = a_job(evacuate(), hostEvents=["reboot-1"])
    fault = an_event(class_=HostEventClass.HARDWARE_FAULT)
    for events in ((), (an_event(phase="Completed"),), (fault,)):
        ask = ask_for(job, events)
        assert (ask.operation, ask.inevitable) == (Operation.REPAIR, False)


@pytest.mark.parametrize(
    ("class_", "source", "phase", "comes"),
    [
        ("Reboot", "AWS", "Scheduled", True),
        ("SpotInterruption", "GCP", "Active", True),
        ("Reboot", "AlibabaCloud", "AwaitingApproval", False),
        ("Reboot", "Webhook", "Scheduled", False),
        ("Reboot", "Agent", "Active", False),
        ("Rebalance", "AWS", "Active", False),
        ("Freeze", "Azure", "Scheduled", False),
        ("Billing", "AlibabaCloud", "Scheduled", False),
    ],
)
def test_only_what_a_cloud_says_will_come_anyway_is_exempt_from_limits(
    class_: str, source: str, phase: str, comes: bool
) -> None:
    event = an_event(phase=phase, class_=HostEventClass(class_), source=HostEventSource(source))
    found = evacuation((event,))
    assert found is not None and found.inevitable is comes


def test_what_nobody_but_the_host_s_own_agent_tells_is_held_to_the_limits() -> None:
    """Agents that are wrong together would else empty every node at once."""
    for by_agent in (True, False):
        event = an_event(phase="Scheduled", source=HostEventSource.AZURE, by_agent=by_agent)
        found = evacuation((event,))
        assert found is not None and found.inevitable is not by_agent


def test_an_event_that_runs_and_never_said_when_began_when_it_was_first_seen() -> None:
    later = T0 + MINUTE
    assert due_at(HostEventPhase.ACTIVE, None, T0) == T0
    assert due_at(HostEventPhase.SCHEDULED, None, T0) is None
    assert due_at(HostEventPhase.ACTIVE, later, T0) == later


# -- approveEvent ----------------------------------------------------------------------------------

APPROVE: dict[str, Any] = {"approveEvent": {"timeout": "10m"}}


def approving(noted: dict[str, str] | None = None, **changes: Any) -> Job:
    record = a_record(2, "approveEvent", output=noted or {}, **changes)
    events = ["e1", "e2"]
    return a_job(evacuate(APPROVE), status=running(2, CORDONED, DRAINED, record), hostEvents=events)


def asked_of(*phases: str, **changes: Any) -> tuple[EventObservation, ...]:
    return tuple(an_event(f"e{n + 1}", phase, **changes) for n, phase in enumerate(phases))


def test_the_intent_is_written_before_a_provider_is_told() -> None:
    after, act = step(approving(), at_step(asked_of("AwaitingApproval")))
    assert act is JobAct.NONE and after.record is not None
    assert after.record.output == {"e1": "Asked"} and after.in_flight
    _, act = step(after, at_step(asked_of("AwaitingApproval"), unasked=True))
    assert act is EventAct.APPROVE_EVENT


def test_what_a_process_that_died_may_have_told_is_told_again_only_where_that_is_harmless() -> None:
    job = approving({"e1": "Asked"}, by="Provider", askedAt=T0.isoformat(), requestID="r0s2a1")
    assert step(job, at_step(asked_of("AwaitingApproval")))[1] is JobAct.NONE
    again = at_step(asked_of("AwaitingApproval", repeatable=True))
    assert step(job, again)[1] is EventAct.APPROVE_EVENT


@pytest.mark.parametrize("phase", ["Active", "Completed", "Cancelled", "Expired"])
def test_an_event_that_has_begun_or_is_over_needs_no_leave(phase: str) -> None:
    job = approving({"e1": "Asked"}, by="Provider", askedAt=T0.isoformat(), requestID="r0s2a1")
    after, _ = step(job, at_step(asked_of(phase)))
    assert after.status.step == 3 or after.close_reason is CloseReason.EVENT_CANCELLED


@pytest.mark.parametrize(
    ("outcome", "ends"),
    [("Taken", "goes on"), ("Later", "held"), ("Unclear", "held"), ("Refused", "failed")],
)
def test_what_a_provider_answers(outcome: str, ends: str) -> None:
    job = approving({"e1": "Asked"}, by="Provider", askedAt=T0.isoformat(), requestID="r0s2a1")
    said = JobActResult(
        EventAct.APPROVE_EVENT, error="the cloud said so", outcome=RequestOutcome(outcome)
    )
    after, _ = step(job, at_step(asked_of("AwaitingApproval", "AwaitingApproval"), act_result=said))
    if ends == "failed":
        assert after.phase is JobPhase.NEEDS_HUMAN
        assert "the cloud said so" in after.status.message
        return
    held = after.status.hold
    assert (held is not None) == (ends == "held")
    assert held is None or held.reason == "ProviderUnreachable"
    note = {"Taken": "Approved", "Later": "Later", "Unclear": "Asked"}[outcome]
    assert after.record is not None and after.record.output == {"e1": note}


def test_nothing_is_let_go_ahead_while_a_guard_is_true() -> None:
    guarded = at_step(asked_of("AwaitingApproval"), fault=replace(FAULTY, guards=Truth.TRUE))
    after, act = step(approving(), guarded)
    assert act is JobAct.NONE and after.status.hold is not None
    assert after.status.hold.reason == "GuardTrue"
    assert after.record is not None and after.record.output == {}


# -- whole ways ------------------------------------------------------------------------------------


def a_world(*more: dict[str, Any], **changes: Any) -> FakeWorld:
    obj = an_object(evacuate(*more), hostEvents=["reboot-1"], onGiveUp="Release")
    world = FakeWorld(obj, needs=1, **changes)
    world.outside.planned = (an_event(phase="AwaitingApproval", repeatable=True),)
    return world


async def the_cloud_boots(world: FakeWorld) -> None:
    await world.run(lambda w: w.job.step is not None and w.job.step.name == "waitForEvent", 2)
    world.boot, world.needs = "boot-2", 0
    world.outside.phase("Completed")


@pytest.mark.exhaustive
@pytest.mark.parametrize("applied", [False, True])
async def test_dying_at_any_write_of_a_planned_reboot_ends_the_same(applied: bool) -> None:
    for die_at in count(1):
        world = a_world(APPROVE, WAIT, die_at=die_at, applied=applied)
        await the_cloud_boots(world)
        await world.run(closed)
        assert world.obj.status.phase is JobPhase.SUCCEEDED, world.writes
        assert set(world.outside.approved) == {"ext-reboot-1"}
        assert world.cordons == 1 and not world.unschedulable and world.permits == {}
        if len(world.writes) < die_at:
            return


@pytest.mark.exhaustive
@pytest.mark.parametrize("applied", [False, True])
async def test_a_provider_that_cannot_be_told_twice_is_not_wherever_we_die(applied: bool) -> None:
    for die_at in count(1):
        world = a_world(APPROVE, WAIT, die_at=die_at, applied=applied)
        world.outside.planned = (an_event(phase="AwaitingApproval"),)
        await world.run(lambda w: bool(w.outside.approved) or w.obj.status.phase.closed, 1)
        assert len(world.outside.approved) <= 1  # the world itself asserts the rest
        if len(world.writes) < die_at:
            return


async def test_a_cancelled_event_gives_the_node_back() -> None:
    world = a_world(WAIT)
    await world.run(lambda w: w.obj.status.step == 2, 2)
    assert world.unschedulable
    world.outside.phase("Cancelled")
    world.needs = 0
    await world.run(closed)
    assert world.obj.status.phase is JobPhase.CANCELLED
    assert not world.unschedulable and world.permits == {}


async def test_a_boot_before_the_wait_began_counts() -> None:
    world = a_world(WAIT)
    world.budget = 1
    await world.run(lambda w: w.obj.status.step == 1 and bool(w.evictions), 2)
    world.boot, world.budget = "boot-2", 1000  # while pods still left
    world.outside.phase("Active")
    await world.run(lambda w: w.obj.status.phase is not JobPhase.RUNNING, 2)
    assert world.obj.status.steps[2].message == "the host has booted again"


class BeginsMeanwhile(FakeWorld):
    """The event begins just before the rule is judged, and the rule asks for scheduled ones."""

    async def fault(self, job: Job) -> FaultAssessment:
        self.outside.phase("Active")
        return FaultAssessment(Truth.FALSE, Truth.FALSE, gone=Truth.TRUE)


async def test_an_event_that_begins_while_we_look_is_not_taken_for_its_end() -> None:
    obj = an_object(evacuate(APPROVE, WAIT), hostEvents=["reboot-1"])
    world = BeginsMeanwhile(obj)
    world.outside.planned = (an_event(),)
    looked = await observe(approving(), Reads(world), world.steps(), T0)
    assert [event.phase for event in looked.events] == [HostEventPhase.ACTIVE]
    assert looked.fault.evidence is Truth.TRUE


@pytest.mark.parametrize(
    ("scopes", "by_agent"),
    [
        (["agent:n1/azure_imds"], True),
        (["agent:n1/azure_imds", "azure:sub-1"], False),
        (["azure:sub-1"], False),
    ],
)
def test_who_tells_of_an_event_is_read_from_what_host_doctor_noted(
    scopes: list[str], by_agent: bool
) -> None:
    told = json.dumps({"scopes": scopes, "silent": True})
    spec = {"source": "Azure", "externalID": "x", "class": "Reboot", "node": {"name": "n1"}}
    event = HostEvent.model_validate(
        {
            "metadata": {"name": "e1", "annotations": {"kubenode.io/told": told}},
            "spec": spec,
            "status": {"phase": "Scheduled"},
        }
    )
    job = a_job(evacuate(), nodeName="n1", nodeUID="")
    assert observe_event("e1", event, job, T0).by_agent is by_agent


# -- an event that is put off ----------------------------------------------------------------------

NO_EVIDENCE = FaultAssessment(Truth.FALSE, Truth.FALSE, agreed=True, gone=Truth.TRUE)


def due_in(hours: float, phase: HostEventPhase = HostEventPhase.SCHEDULED) -> EventObservation:
    return EventObservation(
        "reboot-1", phase, HostEventClass.REBOOT, due=T0 + timedelta(hours=hours)
    )


def test_an_event_that_is_put_off_gives_the_node_back_at_once() -> None:
    after, act = step(waiting(), at_step((due_in(24),), fault=NO_EVIDENCE))
    assert act is JobAct.NONE and after.close_reason is CloseReason.FAULT_GONE
    assert "put off" in after.status.message
    assert not after.close_reason.outlasts_the_job, "another job may come when it is due"
    assert step(after, at_step((due_in(24),)))[1] is JobAct.UNCORDON


@pytest.mark.parametrize(
    ("job", "looked"),
    [
        (waiting(), at_step((due_in(24),))),
        (waiting(), at_step((due_in(24),), fault=replace(NO_EVIDENCE, evidence=Truth.UNKNOWN))),
        (waiting(), at_step((due_in(24),), fault=NO_EVIDENCE, fresh=False)),
        (waiting(acted=True), at_step((due_in(24),), fault=NO_EVIDENCE)),
        (waiting(), at_step((due_in(-0.1),), fault=NO_EVIDENCE)),
        (waiting(), at_step((due_in(24, HostEventPhase.ACTIVE),), fault=NO_EVIDENCE)),
        (waiting(), at_step((due_in(24), due_in(-0.1)), fault=NO_EVIDENCE)),
    ],
    ids=["still asked for", "unknown", "outdated", "acted", "overdue", "runs", "another is due"],
)
def test_a_node_is_not_given_back_when_its_event_may_still_come_soon(
    job: Job, looked: JobObservation
) -> None:
    assert step(job, looked) == (job, JobAct.NONE)


async def test_the_evidence_is_asked_for_while_an_event_is_waited_for() -> None:
    world = a_world(WAIT)
    await world.run(lambda w: w.obj.status.step == 2, 2)
    looked = await observe(world.job, Reads(world), world.steps(), world.clock.now())
    assert looked.fault.evidence is Truth.TRUE
