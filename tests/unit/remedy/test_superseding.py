"""A stronger rule takes a node over at a step boundary, with cordon and permit, whoever dies."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from support.clock import T0
from support.remedy_builders import (
    CORDONED,
    DRAIN,
    DRAINED,
    OURS,
    RESTART,
    TELL,
    a_job,
    an_object,
    asked,
    running,
    seen,
)
from support.remedy_world import Crash, FakeWorld, closed

from kubenode.api.cordon import CORDONED_BY
from kubenode.api.v1alpha1 import JobPhase, NodeRemedier, RemedyOperationJob
from remedy.job.model import CloseReason, Job
from remedy.job.step import step
from remedy.job.supersession import SUCCESSION_TIMEOUT, may_be_superseded
from remedy.remedier.decide import Candidate, Decision, Subject, WaitReason, decide
from remedy.remedier.past import Past
from rules.truth import Truth

MINUTE = timedelta(minutes=1)
NODE = Subject("n1", "node-uid-1", T0 - timedelta(days=30), None, T0)


def a_candidate(name: str = "strong", **spec: Any) -> Candidate:
    rule = {
        "mode": "Enforce",
        "priority": 900,
        "faultClass": "kernel_deadlock",
        "nodes": {"all": True},
        "when": {"condition": {"type": "KernelDeadlock", "status": "True"}},
        "ladder": [DRAIN],
        "groupWait": "0s",
        **spec,
    }
    metadata = {"name": name, "uid": f"uid-{name}", "generation": 1}
    obj = NodeRemedier.model_validate({"metadata": metadata, "spec": rule})
    return Candidate(f"{name}@1", obj, Truth.FALSE, disputed=False, since=T0 - MINUTE)


def decided(job: Job | RemedyOperationJob, *candidates: Candidate) -> Decision:
    obj = job if isinstance(job, RemedyOperationJob) else as_object(job)
    return decide(NODE, candidates or [a_candidate()], [Past.of(obj)], T0)


def as_object(job: Job) -> RemedyOperationJob:
    metadata = {"name": job.name, "uid": job.uid, "creationTimestamp": job.created.isoformat()}
    body = {"metadata": metadata, "spec": job.spec.to_dict(), "status": job.status.to_dict()}
    return RemedyOperationJob.model_validate(body)


WAITS = {"phase": "AwaitingPermit"}
MIGRATES = running(1, CORDONED)
IN_FLIGHT = running(2, CORDONED, DRAINED, asked(2))
ACTED = running(3, CORDONED, DRAINED, asked(2, "Done"))


@pytest.mark.parametrize(
    ("status", "may"),
    [
        (None, False),
        ({"phase": "AwaitingApproval"}, True),
        (WAITS, True),
        (running(0), True),
        (MIGRATES, True),
        (IN_FLIGHT, False),
        (ACTED, False),
        ({**ACTED, "phase": "Verifying"}, False),
        ({**ACTED, "phase": "NeedsHuman", "permit": None}, True),
        ({**ACTED, "phase": "NeedsHuman", "owned": {"cordon": True, "fenced": True}}, False),
        ({"phase": "Succeeded"}, False),
    ],
)
def test_only_at_a_step_boundary_while_it_waits_migrates_or_waits_for_a_person(
    status: dict[str, Any] | None, may: bool
) -> None:
    job = a_job(status=status)
    assert may_be_superseded(job) is may
    after, _ = step(job, seen(node=OURS, stronger="strong"))
    assert (after.close_reason is CloseReason.SUPERSEDED) is may


def test_a_persons_job_gives_way_to_no_rule() -> None:
    job = a_job(status=WAITS, remedier=None)
    assert step(job, seen(stronger="strong"))[0].close_reason is None
    assert decided(job).stronger is None


def test_only_a_rule_of_higher_priority_is_stronger() -> None:
    job = a_job(status=WAITS, priority=500)
    assert decided(job).stronger == (job.name, "strong")
    for priority in (500, 499):
        decision = decided(job, a_candidate(priority=priority))
        assert decision.stronger is None
        assert dict(decision.waits) == {"strong": WaitReason.OPEN_JOB}, "F08: it waits visibly"


def test_what_keeps_a_rule_from_acting_keeps_it_from_superseding() -> None:
    job = a_job(status=WAITS)
    guarded = replace(a_candidate(), guards=Truth.TRUE)
    assert decided(job, guarded).stronger is None
    assert decided(job, a_candidate(groupWait="10s")).stronger is None


def test_the_successor_is_made_once_and_names_the_job_and_the_rule_that_lost() -> None:
    closing, _ = step(a_job(status=MIGRATES), seen(node=OURS, stronger="strong"))
    decision = decided(closing)
    (order,) = decision.orders
    assert order.supersedes == closing.name and order.name != closing.name
    assert ("runtime-unhealthy", f"superseded: job {closing.name}") in order.others
    over = replace(closing, status=closing.status.model_copy(update={"phase": JobPhase.CANCELLED}))
    timeline = over.status.timeline.model_copy(update={"closed": T0})
    (again,) = decided(over.having(timeline=timeline)).orders
    assert again.name == order.name, "whenever it is made, it is the same job"


@dataclass
class Pair:
    """The superseded job and its successor on one node; both share Node, clock and permits."""

    first: FakeWorld
    second: FakeWorld | None = None
    comes: bool = True
    die_at: int = 0
    applied: bool = False
    cordoned: list[bool] = field(default_factory=list)

    def make(self) -> None:
        """As the remedier: what follows from the first job as it is written."""
        decision = decided(self.first.obj)
        self.first.stronger_rule = decision.stronger[1] if decision.stronger else ""
        if not decision.orders or not self.comes or self.second is not None:
            return
        order = decision.orders[0]
        obj = an_object(DRAIN, name=order.name, supersedes=order.supersedes, priority=900)
        first = self.first
        self.second = FakeWorld(
            obj,
            die_at=self.die_at,
            applied=self.applied,
            clock=first.clock,
            permits=first.permits,
            permit_name="permit-2",
            annotations=first.annotations,
        )

    async def turn(self, world: FakeWorld, other: FakeWorld | None) -> None:
        with suppress(Crash):
            await world.controller().reconcile(world.obj.metadata.name)
        if other is not None:
            other.unschedulable = world.unschedulable
        self.cordoned.append(world.unschedulable)

    async def run(self) -> None:
        for _ in range(200):
            self.make()
            self.first.next_job = self.second.job if self.second is not None else None
            await self.turn(self.first, self.second)
            if self.second is not None:
                self.second.unschedulable = self.first.unschedulable
                await self.turn(self.second, self.first)
                self.second.others()
            self.first.clock.step(timedelta(seconds=10))
            if closed(self.first) and (not self.comes or self.done):
                return
        raise AssertionError(self.first.obj.status.to_dict())

    @property
    def done(self) -> bool:
        return self.second is not None and closed(self.second)


async def a_pair(**changes: Any) -> Pair:
    """The first job has cordoned the node and cannot drain it."""
    first = FakeWorld(an_object(DRAIN, RESTART), budget=0)
    await first.run(lambda w: w.obj.status.hold is not None, 1)
    assert first.unschedulable and first.permits
    first.writes.clear()
    return Pair(first, **changes)


@pytest.mark.exhaustive
@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("who", ["first", "second"])
async def test_dying_at_any_write_of_either_the_node_stays_cordoned_and_ends_without_leftovers(
    who: str, applied: bool
) -> None:
    for die_at in count(1):
        pair = await a_pair(applied=applied, die_at=die_at if who == "second" else 0)
        if who == "first":
            pair.first.die_at, pair.first.applied = die_at, applied
        await pair.run()
        first, second = pair.first, pair.second
        assert second is not None
        assert first.obj.status.phase is JobPhase.CANCELLED
        assert first.job.close_reason is CloseReason.SUPERSEDED
        assert second.obj.status.phase is JobPhase.SUCCEEDED, second.obj.status.to_dict()
        assert first.restarts == [] and len(second.restarts) == 1
        assert second.cordons == 0, "taken over, not made anew"
        healed = pair.cordoned.index(False)
        assert not any(pair.cordoned[healed:]), "schedulable once, at the end"
        assert "uncordon" not in first.writes
        assert not second.unschedulable and CORDONED_BY not in second.annotations
        assert second.permits == {}
        died = first if who == "first" else second
        if len(died.writes) < die_at:
            return


async def test_a_successor_that_never_comes_costs_the_job_no_more_than_the_hand_over() -> None:
    pair = await a_pair(comes=False)
    began = pair.first.clock.now()
    await pair.run()
    assert pair.first.obj.status.phase is JobPhase.CANCELLED
    assert not pair.first.unschedulable and pair.first.permits == {}
    assert pair.first.clock.now() - began < SUCCESSION_TIMEOUT + MINUTE


async def test_the_permit_passes_over_without_a_moment_in_which_nobody_holds_one() -> None:
    pair = await a_pair()
    holders: list[frozenset[str]] = []
    while pair.second is None or "Running" not in str(pair.second.obj.status.phase):
        pair.make()
        pair.first.next_job = pair.second.job if pair.second is not None else None
        await pair.turn(pair.first, pair.second)
        holders.append(frozenset(pair.first.permits))
        if pair.second is not None:
            pair.second.unschedulable = pair.first.unschedulable
            await pair.turn(pair.second, pair.first)
            holders.append(frozenset(pair.first.permits))
            assert pair.second.obj.spec.supersedes == pair.first.obj.metadata.name
        assert len(holders) < 50
    assert all(holders)


async def test_f19_a_person_who_uncordons_in_the_middle_ends_both() -> None:
    pair = await a_pair()
    while pair.second is None:
        await pair.turn(pair.first, None)
        pair.make()
    pair.first.unschedulable = pair.second.unschedulable = False
    await pair.turn(pair.second, None)
    assert pair.second.obj.status.phase is JobPhase.CANCELLED
    assert pair.second.job.close_reason is CloseReason.PERSON_UNCORDONED


def test_a_successor_that_disrupts_nothing_frees_the_permit_at_once() -> None:
    ending, _ = step(a_job(status=MIGRATES), seen(node=OURS, stronger="strong"))
    after = a_job(TELL, status={"phase": "Running"}, supersedes=ending.name)
    theirs = replace(OURS, cordoned_by=after.name + "x")
    released, act = step(ending, seen(node=theirs, successor=after))
    assert released == ending and act == "ReleasePermit"
