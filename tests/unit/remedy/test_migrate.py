"""Step `migrate`: what follows from what is seen of the pods, and how a drain ends (F16 to F20)."""

from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from support.clock import T0
from support.moving_world import FakePods
from support.remedy_builders import (
    CORDONED,
    FAULTY,
    HEALED,
    JOB,
    a_job,
    a_record,
    an_object,
    running,
    seen,
)
from support.remedy_world import FakeWorld, closed, needs_human

from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.providers.port import Can, Power, PowerState
from kubenode.runtime.drain import gangs
from kubenode.runtime.drain.gangs import CheckpointAnswer
from kubenode.runtime.drain.observation import Blocked, Going, Pods, Surge, Surges
from remedy.job.marks import MARKS, PROTECTED_BY, added, removed
from remedy.job.migration import surge_replicas
from remedy.job.migration.acts import PodAct
from remedy.job.migration.force import deletion
from remedy.job.migration.surge_replicas import SurgeDeployment, lowered, places, refusal
from remedy.job.model import Act, Job, JobAct, JobActResult, NodeObservation
from remedy.job.moves import SETTLES
from remedy.job.step import step
from remedy.power.observation import PowerObservation

MINUTE = timedelta(minutes=1)
RESTART = {"agent": {"action": "RestartUnit", "unit": "kubelet.service", "timeout": "2m"}}
SILENT = NodeObservation(
    unschedulable=True, cordoned_by=JOB, boot_id="boot-1", ready="Unknown", annotations=MARKS
)
READY = NodeObservation(
    unschedulable=True, cordoned_by=JOB, boot_id="boot-1", ready="True", annotations=MARKS
)


def rung(*after: dict[str, Any], **spec: Any) -> dict[str, Any]:
    steps = [{"cordon": {}}, {"migrate": {"timeout": "10m", **spec}}, *after]
    return {"name": "drain", "steps": steps, "verify": {"for": "1m", "timeout": "5m"}}


def draining(*after: dict[str, Any], output: dict[str, str] | None = None, **spec: Any) -> Job:
    record = a_record(1, "migrate", output=output or {})
    return a_job(rung(*after, **spec), rung(), status=running(1, CORDONED, record))


def moved(job: Job, **what: Any) -> tuple[Job, Act]:
    return step(job, seen(**{"node": READY, **what}))


def record(job: Job, index: int = 1) -> StepStatus:
    return next(r for r in job.status.steps if r.index == index)


def hanging(*names: str, ends: Any = T0 - timedelta(minutes=3), **more: Any) -> Pods:
    going = tuple(Going(name, ends) for name in names)
    return Pods(**{"remaining": len(names), "every": names, "going": going, **more})


DARK = PowerObservation("fake", Can(), Power(PowerState.OFF, "stopped", T0))


# -- F16 -------------------------------------------------------------------------------------------


def test_f16_a_drain_that_only_waits_is_cancelled_too_when_the_fault_goes() -> None:
    waits = Pods(remaining=1, patient=1, waiting="pods run to completion")
    gone = draining(RESTART).having(evidence_false_since=T0 - SETTLES)
    after, act = moved(gone, pods=waits, fault=HEALED)
    assert act is JobAct.NONE and str(after.close_reason) == "FaultGone"
    assert record(after).state == "Cancelled"


# -- F17 -------------------------------------------------------------------------------------------


def test_f17_the_hold_names_the_pod_and_every_budget_that_refuses_it() -> None:
    until = T0 + timedelta(seconds=7)
    no = Blocked("shop/cart-1", "pdb=shop/a, shop/b", "PDB shop/a, shop/b: two select it", until)
    after, _ = moved(draining(), pods=Pods(remaining=3, blocked=no))
    hold = after.status.hold
    assert hold is not None and hold.reason == "PDBBlocked"
    assert "shop/cart-1" in hold.message and "shop/a, shop/b" in hold.message
    assert (hold.scope, hold.look_again_at) == ("pdb=shop/a, shop/b", until)


def test_f17_while_one_pod_is_refused_the_others_go() -> None:
    no = Blocked("shop/cart", "pdb=shop/cart", "no", T0 + timedelta(seconds=7))
    _, act = moved(draining(), pods=Pods(remaining=3, due=("shop/web",), blocked=no))
    assert act is PodAct.EVICT


def test_f17_the_hold_ends_with_the_refusal() -> None:
    hold = {"reason": "PDBBlocked", "message": "no", "lookAgainAt": T0.isoformat()}
    job = a_job(rung(), status=running(1, CORDONED, a_record(1, "migrate"), hold=hold))
    after, _ = moved(job, pods=hanging("shop/cart", ends=T0 + MINUTE))
    assert after.status.hold is None


# -- F18: order is in test_drain.py ----------------------------------------------------------------


def test_f18_nobody_leaves_while_other_jobs_have_not_cordoned_their_nodes() -> None:
    pods = Pods(remaining=1, due=("shop/web",), cordoning=3)
    _, act = moved(draining(), pods=pods)
    assert act is JobAct.NONE
    _, act = moved(draining(), pods=pods, now=T0 + timedelta(seconds=10))
    assert act is PodAct.EVICT, "but not for ever"


# -- F20 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "margin"), [("Unknown", 5), ("False", 30), ("True", 120), ("", 120)]
)
def test_f20_a_host_that_ends_nothing_is_seen_before_the_time_is_over(
    state: str, margin: int
) -> None:
    node = NodeObservation(unschedulable=True, cordoned_by=JOB, ready=state, annotations=MARKS)
    pods = hanging("shop/a", "shop/b", ends=T0)
    after, _ = moved(draining(RESTART), node=node, pods=pods, now=T0 + timedelta(seconds=margin))
    assert (record(after).state, after.status.step, after.phase) == ("Failed", 2, JobPhase.RUNNING)
    assert "shop/a, shop/b" in record(after).message
    found = after.condition("Drained")
    assert found is not None and (found.status, found.reason) == ("False", "Hanging")
    early, act = moved(
        draining(RESTART), node=node, pods=pods, now=T0 + timedelta(seconds=margin - 1)
    )
    assert (early.status.step, act) == (1, JobAct.NONE)


@pytest.mark.parametrize(
    ("spec", "after", "phase", "at"),
    [
        ({}, (RESTART,), JobPhase.RUNNING, (0, 2)),
        ({}, (), JobPhase.AWAITING_PERMIT, (1, 0)),
        ({"onTimeout": "Escalate"}, (RESTART,), JobPhase.AWAITING_PERMIT, (1, 0)),
        ({"onTimeout": "Stop"}, (RESTART,), JobPhase.NEEDS_HUMAN, (0, 1)),
    ],
)
def test_f20_the_rule_says_what_follows(
    spec: dict[str, Any], after: tuple[dict[str, Any], ...], phase: JobPhase, at: tuple[int, int]
) -> None:
    then, act = moved(draining(*after, **spec), node=SILENT, pods=hanging("shop/a"))
    assert (then.phase, (then.status.rung, then.status.step), act) == (phase, at, JobAct.NONE)


@pytest.mark.parametrize(
    "more",
    [
        {"due": ("shop/b",), "remaining": 2},
        {"delete": ("shop/b",), "remaining": 2},
        {"patient": 1, "remaining": 2},
        {"remaining": 2},
    ],
)
def test_f20_while_something_may_still_leave_the_drain_goes_on(more: dict[str, Any]) -> None:
    after, _ = moved(draining(RESTART), node=SILENT, pods=hanging("shop/a", **more))
    assert after.status.step == 1


def test_f20_a_budget_keeps_nothing_on_a_silent_host() -> None:
    no = Blocked("shop/b", "pdb=shop/b", "no", T0 + MINUTE)
    pods = hanging("shop/a", remaining=2, blocked=no)
    assert moved(draining(RESTART), node=SILENT, pods=pods)[0].status.step == 2
    assert moved(draining(RESTART), node=READY, pods=pods)[0].status.step == 1


def test_f20_force_needs_the_providers_proof() -> None:
    pods = hanging("shop/a", due=("shop/b",), remaining=2, every=("shop/a", "shop/b"))
    assert moved(draining(), node=SILENT, pods=pods)[1] is PodAct.EVICT
    assert moved(draining(), node=SILENT, pods=pods, power=DARK)[1] is PodAct.DELETE_PODS
    assert deletion(seen(pods=pods, power=DARK)) == (("shop/a", "shop/b"), True)
    running_host = PowerObservation("fake", Can(), Power(PowerState.ON, "running", T0))
    assert deletion(seen(pods=pods, power=running_host)) == (("shop/b",), False)


async def test_f20_a_hung_host_is_left_for_the_next_step_within_two_minutes() -> None:
    world = FakeWorld(an_object(rung(RESTART)), hung=True)
    began = world.clock.now()
    await world.run(lambda w: w.job.status.step == 2 or closed(w))
    assert world.job.status.step == 2
    assert world.clock.now() - began < 2 * MINUTE


# -- what takes too long ---------------------------------------------------------------------------

LATE = T0 + timedelta(minutes=10)
APPROVED = [{"decision": "Approve", "by": "ada", "at": T0.isoformat()}]


def test_the_rest_is_deleted_only_with_a_persons_approval() -> None:
    pods = Pods(remaining=1, every=("shop/a",), blocked=Blocked("shop/a", "pdb=shop/a", "no"))
    refused, act = moved(draining(onTimeout="Delete"), pods=pods, now=LATE)
    assert (refused.phase, act) == (JobPhase.AWAITING_PERMIT, JobAct.NONE)
    assert "needs a person's approval" in refused.status.message
    status = running(1, CORDONED, a_record(1, "migrate"))
    job = a_job(rung(onTimeout="Delete"), status=status, approvals=APPROVED)
    heard, act = moved(job, pods=pods, now=LATE)
    assert (heard.status.words_heard, act) == (1, JobAct.NONE)
    assert moved(heard, pods=pods, now=LATE)[1] is PodAct.DELETE_PODS


def test_after_deletion_the_grace_is_waited_for_and_then_the_host_is_given_up() -> None:
    status = running(1, CORDONED, a_record(1, "migrate"))
    job = a_job(rung(onTimeout="Delete"), rung(), status=status, approvals=APPROVED)
    going = hanging("shop/a", ends=LATE + MINUTE)
    job, _ = moved(job, pods=going, now=LATE)
    assert moved(job, pods=going, now=LATE)[1] is JobAct.NONE
    after, _ = moved(job, pods=going, now=LATE + 4 * MINUTE)
    assert (after.phase, after.status.rung) == (JobPhase.AWAITING_PERMIT, 1)


def test_pods_whose_policy_says_so_are_deleted_in_time() -> None:
    _, act = moved(draining(), pods=Pods(remaining=1, every=("shop/a",), delete=("shop/a",)))
    assert act is PodAct.DELETE_PODS


# -- progress --------------------------------------------------------------------------------------


def test_progress_and_what_stays_are_told() -> None:
    heard = JobActResult(PodAct.EVICT, evicted=("shop/a", "shop/b"))
    after, _ = moved(draining(), pods=Pods(remaining=5), act_result=heard)
    assert record(after).output == {"evicted": "2", "left": "5"}
    again, _ = moved(after, pods=Pods(remaining=3), act_result=heard)
    assert record(again).output == {"evicted": "4", "left": "3"}
    done, _ = moved(again, pods=Pods(remaining=0, stay=("shop/x", "shop/y")))
    assert record(done).message.endswith("2 stay: shop/x, shop/y")
    assert (record(done).state, record(done).output["left"]) == ("Done", "0")


def test_the_reason_for_waiting_is_written_once() -> None:
    pods = Pods(remaining=2, patient=2, waiting="pods run to completion")
    told, _ = moved(draining(), pods=pods)
    assert record(told).message == "pods run to completion"
    again, act = moved(told, pods=pods)
    assert (again, act) == (told, JobAct.NONE)


# -- surge -----------------------------------------------------------------------------------------

SURGE = Surge("shop/web", "rs", 1, T0)
FINE = SurgeDeployment(replicas=3, ready=3, may_add=1, settled=True)


@pytest.mark.parametrize(
    ("changes", "claims", "why"),
    [
        ({}, False, ""),
        ({}, True, "volumes"),
        ({"scaled_by": "web"}, False, "HorizontalPodAutoscaler web"),
        ({"may_add": 0}, False, "no pod more"),
        ({"paused": True}, False, "paused"),
        ({"settled": False}, False, "under way"),
        ({"added": 1, "set_to": 4}, False, "somebody else scales"),
        ({"added": 1, "set_to": 3}, False, ""),
    ],
)
def test_surge_only_where_it_is_safe(changes: dict[str, Any], claims: bool, why: str) -> None:
    found = refusal(SurgeDeployment(**{**_fields(FINE), **changes}), claims)
    assert (why in found) if why else found == ""


def _fields(found: SurgeDeployment) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__dataclass_fields__}


def test_replicas_that_somebody_else_set_meanwhile_stay_theirs() -> None:
    ours = SurgeDeployment(replicas=4, ready=4, may_add=1, settled=True, mine=1, added=1, set_to=4)
    assert (lowered(ours), places(ours)) == (3, 1)
    scaled = SurgeDeployment(
        replicas=9, ready=4, may_add=1, settled=True, mine=1, added=1, set_to=4
    )
    assert lowered(scaled) is None


def test_two_jobs_surge_one_deployment_and_each_takes_off_its_own() -> None:
    both = SurgeDeployment(replicas=5, ready=5, may_add=2, settled=True, mine=1, added=2, set_to=5)
    assert lowered(both) == 4


def test_surge_is_written_down_before_it_is_done() -> None:
    job = draining(surge="First")
    new = Pods(remaining=1, surges=Surges(new=(SURGE,)))
    assert moved(job, pods=new)[1] is JobAct.ADD_FINALIZER
    status = running(1, CORDONED, a_record(1, "migrate"))
    job = _with_finalizer(a_job(rung(surge="First"), status=status))
    written, act = moved(job, pods=new)
    assert act is JobAct.NONE and surge_replicas.owned(written) == [SURGE]
    assert moved(written, pods=Pods(remaining=1, surges=Surges(up=(SURGE,))))[1] is PodAct.SURGE


def _with_finalizer(job: Job) -> Job:
    return replace(job, finalizer=True)


def test_a_reason_against_surge_is_written_and_the_pods_move_without() -> None:
    job = draining(surge="First")
    pods = Pods(
        remaining=1, due=("shop/web",), surges=Surges(plain={"rs": "its rollout is paused"})
    )
    after, _ = moved(job, pods=pods)
    assert surge_replicas.plain(record(after).output) == {"rs": "its rollout is paused"}
    assert moved(after, pods=pods)[1] is PodAct.EVICT


def test_the_record_of_surges_survives_reading_and_keeps_its_bounds() -> None:
    many = [Surge(f"shop/{'x' * 50}-{i}", f"{i:036}", 1, T0) for i in range(40)]
    output = surge_replicas.write({}, many)
    assert len(output["surge"]) <= 1024
    kept = surge_replicas.read(output)
    assert kept == many[: len(kept)] and kept
    plain = surge_replicas.write_plain({}, {f"{i:08}-uid": "why" * 99 for i in range(60)})
    assert len(plain["unsurged"]) <= 1024 and len(surge_replicas.plain(plain)) == 60


async def test_replicas_are_raised_before_and_lowered_after_the_pods_moved() -> None:
    world = FakeWorld(an_object(rung(RESTART, surge="First")), moving=FakePods(surged="shop/web"))
    await world.run(closed)
    assert world.obj.status.phase is JobPhase.SUCCEEDED
    order = [w for w in world.writes if w in ("surge", "evict", "unsurge")]
    assert order == ["surge", "evict", "evict", "unsurge"]
    assert world.moving.raised == 0


async def test_a_replacement_that_never_gets_ready_is_not_waited_for() -> None:
    pods = FakePods(surged="shop/web", ready=False)
    world = FakeWorld(an_object(rung(RESTART, surge="First", timeout="20m")), moving=pods)
    await world.run(closed)
    assert world.obj.status.phase is JobPhase.SUCCEEDED
    assert (pods.raised, len(world.evictions)) == (0, 2)
    assert "not ready in time" in record(world.job).output["unsurged"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("lever", ["surge", "gang"])
async def test_dying_at_any_write_of_a_migration_ends_the_same(lever: str, applied: bool) -> None:
    for die_at in count(1):
        pods = FakePods(surged="shop/web") if lever == "surge" else FakePods(gang="shop/a")
        spec = an_object(rung(RESTART, surge="First"))
        world = FakeWorld(spec, moving=pods, die_at=die_at, applied=applied)
        await world.run(closed)
        assert world.obj.status.phase is JobPhase.SUCCEEDED, (die_at, world.writes)
        assert (world.pods, pods.raised, len(set(world.restarts))) == ([], 0, 1)
        assert PROTECTED_BY not in world.annotations and not world.unschedulable
        if len(world.writes) < die_at:
            return


@pytest.mark.parametrize("phase", ["cancel", "uncordon"])
async def test_what_was_raised_is_lowered_whoever_ends_the_job(phase: str) -> None:
    pods = FakePods(surged="shop/web", ready=False)
    world = FakeWorld(an_object(rung(RESTART, surge="First")), moving=pods)
    await world.run(lambda w: w.moving.raised == 1)
    if phase == "cancel":
        spec = world.obj.spec.model_copy(update={"cancel": True})
        world.obj = world.obj.model_copy(update={"spec": spec})
    else:
        world.unschedulable = False
    await world.run(closed)
    assert (pods.raised, world.obj.status.phase) == (0, JobPhase.CANCELLED)
    assert surge_replicas.owned(world.job) == []


async def test_a_drain_that_yields_holds_no_replicas_meanwhile() -> None:
    pods = FakePods(surged="shop/web", ready=False)
    world = FakeWorld(an_object(rung(RESTART, surge="First", timeout="2m")), moving=pods)
    await world.run(lambda w: w.moving.raised == 1)
    await world.run(lambda w: w.obj.status.phase is JobPhase.AWAITING_PERMIT)
    assert (pods.raised, surge_replicas.owned(world.job)) == (0, [])


# -- gangs -----------------------------------------------------------------------------------------


async def test_a_gang_leaves_after_its_receiver_said_that_it_is_saved() -> None:
    pods = FakePods(gang="shop/a", saves=[None, None, ""])
    world = FakeWorld(an_object(rung(RESTART)), moving=pods)
    await world.run(closed)
    assert world.obj.status.phase is JobPhase.SUCCEEDED
    kinds = [w for w in world.writes if w in ("checkpoint", "evict")]
    assert kinds == ["checkpoint"] * 3 + ["evict"]


async def test_a_receiver_that_fails_is_told_and_the_gang_leaves() -> None:
    pods = FakePods(gang="shop/a", saves=["receiver save: 500"])
    world = FakeWorld(an_object(rung(RESTART)), moving=pods)
    await world.run(lambda w: len(w.evictions) == 2)
    found = gangs.read(record(world.job).output)
    assert found["shop/a"].answer is CheckpointAnswer.LATE


def test_more_gangs_than_have_room_are_told_one_after_the_other() -> None:
    names = [f"shop/{'g' * 60}{i}" for i in range(9)]
    told = gangs.add_requests({}, names, T0)
    output = gangs.write({}, told)
    assert len(told) == gangs.AT_ONCE and len(output["gangs"]) <= 1024
    assert gangs.read(output) == told


# -- the autoscalers' marks ------------------------------------------------------------------------


def test_marks_that_were_there_are_neither_set_nor_taken_off() -> None:
    key = "karpenter.sh/do-not-disrupt"
    marks = added({key: "true"}, JOB)
    assert key not in marks and len(marks) == 2
    assert key not in removed({key: "true", **_texts(marks)}, JOB)
    assert added(MARKS, JOB) == {}


def test_marks_of_a_job_before_are_taken_over() -> None:
    old = _texts(added({}, "job-before"))
    new = {**old, **_texts(added(old, JOB))}
    assert removed(new, "job-before") == {}
    assert set(removed(new, JOB)) == {*MARKS, PROTECTED_BY}


def _texts(marks: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in marks.items() if value is not None}


async def test_the_node_is_kept_from_autoscalers_as_long_as_the_job_is_open() -> None:
    world = FakeWorld(an_object(rung(RESTART)), agent_works=False)
    await world.run(needs_human)
    assert set(MARKS) <= set(world.annotations), "a job that needs a person is open"
    spec = world.obj.spec.model_copy(update={"cancel": True})
    world.obj = world.obj.model_copy(update={"spec": spec})
    await world.run(closed)
    assert not set(world.annotations) & {*MARKS, PROTECTED_BY}
    assert world.writes.index("protect") < world.writes.index("cordon")


def test_a_rung_below_pods_protects_nothing() -> None:
    mild = {"name": "restart", "steps": [RESTART]}
    after, act = step(a_job(mild, status=running(0)), seen(node=NodeObservation(), fault=FAULTY))
    assert act is not JobAct.PROTECT and not after.status.owned.scale_down_disabled
