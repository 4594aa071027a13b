"""Rules with `once`: one job for a group, and when the next one may follow."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from pydantic import ValidationError
from support.clock import T0
from support.remedy_facts import Facts
from support.remedy_hand import Hands
from support.replay_world import REBOOT, a_rule, a_world, ages, at, feed, sick
from support.running import running

from kubenode.api.v1alpha1 import JobPhase, NodeRemedier
from kubenode.api.v1alpha1.noderemedier import OncePerGroup, Scope
from kubenode.api.v1alpha1.remedyoperationjob import JobGroup
from remedy.job.model import CloseReason, Job
from remedy.remedier.decide import Candidate
from remedy.remedier.group_jobs import MOST_NAMED, GroupJobs, covers, describe_group
from remedy.remedier.past import Past
from rules.checks import check
from rules.rule import CompileError, RuleVersion
from rules.truth import Truth
from simulation.replay.world import World

MINUTE, HOUR = 60, 3600
RACK = "kubenode.io/rack"
TELL = [{"name": "tell", "steps": [{"notify": {}}], "verify": {"for": "1m", "timeout": "5m"}}]
PER_RACK = {"per": "Rack", "within": "4h"}
ONCE = OncePerGroup.model_validate(PER_RACK)


def a_fleet(*rules: NodeRemedier, **labels: str) -> World:
    """Nodes by name with their rack; "" for none."""
    world = a_world(*(rules or [tell()]), nodes=())
    for name, rack in labels.items():
        world.add_node(name, labels={RACK: rack} if rack else {})
    return world


def tell(name: str = "tell", **spec: Any) -> NodeRemedier:
    return a_rule(name, **{"ladder": TELL, "once": PER_RACK, **spec})


# -- in the simulated fleet -----------------------------------------------------------------------


@pytest.mark.exhaustive
def test_one_node_of_a_rack_gets_the_job_and_the_others_are_covered() -> None:
    world = a_fleet(a="r1", b="r1", c="r2", d="")
    sick(world, 0, ["a", "b", "c", "d"])
    at(world, 2 * HOUR)
    assert sorted(ages(world)) == [("a", "tell", 30), ("c", "tell", 30), ("d", "tell", 30)]
    assert world.waits("b") == {"tell": "CoveredByGroup"}
    assert world.waiting("b")[0].job == f"{world.jobs[0].name} of rack r1 on node a"
    assert world.jobs[0].close_reason is CloseReason.NOTIFIED


def test_without_once_each_node_gets_a_job() -> None:
    world = a_fleet(tell(once=None), a="r1", b="r1")
    sick(world, 0, ["a", "b"])
    at(world, HOUR)
    assert [node for node, _, _ in ages(world)] == ["a", "b"]


@pytest.mark.exhaustive
def test_a_fault_that_lasts_is_reported_again_after_the_time() -> None:
    world = a_fleet(a="r1", b="r1")
    sick(world, 0, ["a", "b"])
    at(world, 30 + 4 * HOUR - 1)
    assert len(world.jobs) == 1
    at(world, 30 + 4 * HOUR + MINUTE)
    assert [node for node, _, _ in ages(world)] == ["a", "b"]


def test_a_fault_after_the_incident_is_a_new_one() -> None:
    world = a_fleet(a="r1", b="r1")
    sick(world, 0, "a")
    sick(world, 20 * MINUTE, "a", on=False)
    sick(world, 40 * MINUTE, "b")
    at(world, HOUR)
    assert [node for node, _, _ in ages(world)] == ["a", "b"]


def test_a_fault_that_began_in_the_incident_is_covered_after_it() -> None:
    world = a_fleet(a="r1", b="r1")
    sick(world, 0, "a")
    sick(world, 10 * MINUTE, "b")
    sick(world, 20 * MINUTE, "a", on=False)
    at(world, HOUR)
    assert [node for node, _, _ in ages(world)] == ["a"]


def test_a_job_that_ends_before_it_notified_covers_nobody() -> None:
    world = a_fleet(tell(groupWait="5m"), a="r1", b="r1")
    sick(world, 0, "a")
    sick(world, MINUTE, "b")
    sick(world, 2 * MINUTE, "a", on=False)
    at(world, HOUR)
    first, second = world.jobs
    assert (first.node, first.close_reason) == ("a", CloseReason.FAULT_GONE)
    assert second.node == "b"


def test_a_covered_node_is_left_to_a_weaker_rule() -> None:
    weaker = a_rule("weaker", priority=100)
    world = a_fleet(tell(), weaker, a="r1", b="r1")
    sick(world, 0, ["a", "b"])
    at(world, 10 * MINUTE)
    assert ("b", "weaker") in [(node, rule) for node, rule, _ in ages(world)]


def test_a_repair_covers_the_group_while_it_is_open() -> None:
    world = a_fleet(a_rule(once={"per": "Rack", "within": "0s"}, ladder=REBOOT), a="r1", b="r1")
    sick(world, 0, ["a", "b"])
    at(world, 5 * MINUTE)
    assert [job.node for job in world.jobs] == ["a"]
    feed(world, 5 * MINUTE, "a", condition={"type": "Sick", "status": "False"})
    at(world, HOUR)
    assert [job.node for job in world.jobs] == ["a", "b"]


def test_a_dry_run_counts_one_for_the_group() -> None:
    world = a_fleet(tell(mode="DryRun"), a="r1", b="r1", c="r2")
    sick(world, 0, ["a", "b", "c"])
    at(world, HOUR)
    assert sorted(node for node, _, _ in ages(world)) == ["a", "c"]


@pytest.mark.parametrize("scope", [scope for scope in Scope if scope is not Scope.NODE])
def test_every_group_can_be_named(scope: Scope) -> None:
    assert OncePerGroup.model_validate({"per": scope}).per is scope


def test_a_node_is_no_group() -> None:
    with pytest.raises(ValidationError):
        OncePerGroup.model_validate({"per": "Node"})


def test_a_rule_that_infers_and_a_time_beyond_the_kept_jobs_are_refused() -> None:
    inferring = a_rule(infer={"fact": "rack.bad"}, once={"per": "Rack"})
    with pytest.raises(CompileError, match=r"spec.once: a rule that infers makes no job"):
        check(RuleVersion("r@1", inferring))
    with pytest.raises(CompileError, match=r"spec.once.within: .* write 72h or less"):
        check(RuleVersion("r@1", tell(once={"per": "Rack", "within": "73h"})))


# -- covers(): over the product of what a job may be -----------------------------------------------


CLOSED = T0 + timedelta(minutes=10)
ENDED = T0 + timedelta(minutes=20)


@pytest.mark.parametrize(
    ("reason", "false_since", "since", "now"),
    list(
        product(
            CloseReason,
            (None, ENDED),
            (T0, ENDED + timedelta(minutes=1)),
            (ENDED + timedelta(minutes=2), T0 + ONCE.within),
        )
    ),
)
def test_what_a_closed_job_covers(
    reason: CloseReason, false_since: Any, since: Any, now: Any
) -> None:
    job = Past("a-1", "uid", "tell", "x", reason.phase, T0, closed=CLOSED, reason=reason)
    job = replace(job, false_since=false_since)
    undone = {
        CloseReason.FAULT_GONE,
        CloseReason.NODE_GONE,
        CloseReason.SUPERSEDED,
        CloseReason.EVENT_CANCELLED,
    }
    over = now >= T0 + ONCE.within
    ended = CLOSED if reason is CloseReason.PROVEN else false_since
    later = ended is not None and since > ended
    assert covers(job, ONCE, since, now) is (reason not in undone and not over and not later)
    opened = replace(job, phase=JobPhase.RUNNING, closed=None, reason=None)
    assert covers(opened, ONCE, since, now + timedelta(days=9)), "an open job always covers"


def test_a_job_that_is_being_made_covers_the_other_nodes() -> None:
    world = Facts()
    for name in ("a", "b"):
        world.node(name, labels={RACK: "r1"})
    rule = tell()
    jobs = GroupJobs(world.store.fleet, lambda node: (), lambda name: ())
    candidate = Candidate("tell@1", rule, Truth.FALSE, False, T0)
    with jobs.claim("a", rule):
        assert jobs.cover("b", candidate, T0) == "the job of rack r1 on node a"
        assert jobs.cover("a", candidate, T0) == ""
    assert jobs.cover("b", candidate, T0) == ""


# -- in the operator ------------------------------------------------------------------------------


async def test_two_nodes_that_are_decided_at_once_get_one_job() -> None:
    hands = Hands()
    await hands.rule(once={"per": "Zone"}, groupWait="0s", startupGrace="0s")
    for name in ("n1", "n2"):
        hands.node(name, Sick=("True", T0 - timedelta(minutes=1)))
    async with running(hands.operator.evaluator.run()):
        reconcile = hands.operator.decider.reconcile
        await asyncio.gather(*(reconcile(name) for name in ("n1", "n2") * 2))
    (job,) = hands.jobs.cache.values()
    assert job.spec.group == JobGroup(scope=Scope.ZONE, name="z1")
    anew = Hands(hands.clock, hands)
    await anew.operator.rules.reload()
    for name in ("n1", "n2"):
        await anew.decide(name)
    assert len(anew.jobs.cache) == 1, "also after a restart"


async def test_the_notification_names_the_group_and_the_nodes_that_match() -> None:
    hands = Hands()
    await hands.rule(once={"per": "Zone"}, groupWait="0s", startupGrace="0s")
    for name in ("n1", "n2", "n3"):
        bad = "False" if name == "n3" else "True"
        hands.node(name, Sick=(bad, T0 - timedelta(minutes=1)))
        await hands.decide(name)
    (job,) = hands.jobs.cache.values()
    assert hands.operator._describe_group(Job.of(job)) == ("zone z1: 2 nodes: n1, n2")


def test_a_group_is_described_with_few_of_many_nodes() -> None:
    group = JobGroup(scope=Scope.CLUSTER)
    assert describe_group(group, ["a"]) == "cluster: 1 node: a"
    many = [f"n{i}" for i in range(MOST_NAMED + 3)]
    assert describe_group(group, many).endswith("n7 and 3 more")
