"""Who gets a node while its job waits out groupWait or startupGrace, and how many jobs it makes."""

from datetime import timedelta
from typing import Any

import pytest
from support.replay_world import a_rule, a_world, ages, at, feed, sick

from kubenode.api.v1alpha1 import NodeRemedier
from remedy.job.model import CloseReason
from simulation.replay.records import JobRecord
from simulation.replay.world import World

LONG = timedelta(days=1)


def rule(name: str, condition: str, **spec: Any) -> NodeRemedier:
    when = {"condition": {"type": condition, "status": "True"}}
    given = {"groupWait": "10s", "startupGrace": "5m", "when": when}
    return a_rule(name, **{**given, **spec})


def turns(world: World, seconds: float, condition: str, on: bool = True) -> None:
    feed(world, seconds, "a", condition={"type": condition, "status": str(on)})


def begun(world: World, job: JobRecord) -> float | None:
    return None if job.begun is None else (job.begun - world.start).total_seconds()


def a_young_world(*rules: NodeRemedier, age: float = 0) -> World:
    world = World(rules)
    world.add_node("a", age=timedelta(seconds=age))
    return world


def test_stronger_rule_supersedes_and_counts_from_the_first_match() -> None:
    world = a_world(rule("weak", "Weak", priority=100), rule("strong", "Strong", priority=900))
    turns(world, 0, "Weak")
    turns(world, 5, "Strong")
    at(world, 8)
    weak, strong = world.jobs
    assert (weak.close_reason, weak.acts) == (CloseReason.SUPERSEDED, [])
    assert (ages(world)[1], strong.begun) == (("a", "strong", 5), None)
    assert world.waits("a") == {"strong": "GroupWait", "weak": "OpenJob"}
    assert strong.also_matched == ("weak",)
    at(world, 11)
    assert begun(world, strong) == 10
    assert len(world.jobs) == 2


@pytest.mark.parametrize("first", ["alpha", "beta"])
def test_rules_of_one_priority_are_chosen_in_order_whichever_matches_first(first: str) -> None:
    world = a_world(rule("alpha", "Alpha"), rule("beta", "Beta"))
    second = {"alpha": "beta", "beta": "alpha"}[first]
    turns(world, 0, first.capitalize())
    turns(world, 5, second.capitalize())
    at(world, 60)
    assert [job.remedier for job in world.jobs if job.begun is not None] == ["alpha"]
    late = a_world(rule("alpha", "Alpha"), rule("beta", "Beta"))
    turns(late, 0, "Beta")
    turns(late, 12, "Alpha")
    at(late, 60)
    assert [job.remedier for job in late.jobs] == ["beta"], "after groupWait the first one stays"


def test_longer_group_wait_of_the_stronger_rule_is_waited_out() -> None:
    strong = rule("strong", "Strong", priority=900, groupWait="60s")
    world = a_world(rule("weak", "Weak", priority=100), strong)
    turns(world, 0, "Weak")
    turns(world, 5, "Strong")
    at(world, 120)
    assert [(job.remedier, begun(world, job)) for job in world.jobs] == [
        ("weak", None), ("strong", 60),
    ]  # fmt: skip
    begun_first = a_world(rule("weak", "Weak", priority=100), strong)
    turns(begun_first, 0, "Weak")
    turns(begun_first, 15, "Strong")
    at(begun_first, 50)
    (weak,) = begun_first.jobs
    assert begun(begun_first, weak) == 10, "a job that has begun goes on for as long"
    assert begun_first.waits("a")["strong"] == "GroupWait"


def test_what_may_act_sooner_is_not_kept_back_by_startup_grace_of_another() -> None:
    """An interruption notice on a node that is a minute old must be heeded."""
    strong = rule("strong", "Strong", priority=900)
    notice = rule("notice", "Notice", priority=100, startupGrace="0s")
    world = a_young_world(strong, notice)
    turns(world, 60, "Strong")
    turns(world, 90, "Notice")
    at(world, 95)
    assert [job.remedier for job in world.jobs] == ["strong", "notice"]
    assert world.jobs[0].close_reason is CloseReason.SUPERSEDED
    at(world, 120)
    assert begun(world, world.jobs[1]) == 90, "the first match is 30 s ago"
    assert world.waits("a")["strong"] == "StartupGrace"


def test_guard_that_becomes_true_in_the_wait_lets_the_next_rule_have_its_turn() -> None:
    calm = {"condition": {"type": "Storm", "status": "True"}}
    world = a_world(
        rule("strong", "Strong", priority=900, unless=calm), rule("weak", "Weak", priority=100)
    )
    turns(world, 0, "Weak")
    turns(world, 0, "Strong")
    turns(world, 4, "Storm")
    at(world, 30)
    assert [(job.remedier, begun(world, job)) for job in world.jobs] == [
        ("strong", None), ("weak", 10),
    ]  # fmt: skip


def test_boot_in_the_wait_lets_the_node_alone_for_the_whole_grace() -> None:
    world = a_world(rule("sick", "Sick"))
    sick(world, 0)
    feed(world, 5, "a", boot={})
    at(world, 304)
    (job,) = world.jobs
    assert (job.begun, job.acts) == (None, [])
    at(world, 306)
    assert begun(world, job) == 305


@pytest.mark.parametrize(("on", "off"), [(2, 2), (5, 5), (1, 9), (9, 20), (20, 40), (2, 60)])
@pytest.mark.exhaustive
def test_flapping_fault_makes_few_jobs_and_no_act_while_the_node_comes_up(
    on: int, off: int
) -> None:
    """One job while the fault stays away for less than 30 s; else one for each time it is back."""
    world = a_young_world(rule("sick", "Sick"))
    second = 0
    while second < 300:
        turns(world, second, "Sick")
        turns(world, second + on, "Sick", on=False)
        second += on + off
    at(world, 299)
    bound = 1 if off < 30 else 300 // (on + off) + 1
    assert len(world.jobs) <= bound
    assert all(not job.acts and job.permit_at is None for job in world.jobs)
    at(world, 400)
    assert all(not job.open and not job.acts for job in world.jobs)
    turns(world, 500, "Sick")
    at(world, 520)
    assert begun(world, world.jobs[-1]) == 510, "and it blocks none that comes later"


@pytest.mark.exhaustive
def test_two_rules_that_flap_do_not_take_the_place_of_each_other_again_and_again() -> None:
    world = a_young_world(
        rule("weak", "Weak", priority=100), rule("strong", "Strong", priority=900)
    )
    for second in range(0, 290, 4):
        turns(world, second, "Strong")
        turns(world, second + 1, "Weak", on=False)
        turns(world, second + 2, "Strong", on=False)
        turns(world, second + 3, "Weak")
    at(world, 299)
    assert len(world.jobs) <= 2


def test_flap_shorter_than_group_wait_is_never_acted_on() -> None:
    world = a_world(rule("sick", "Sick"))
    for second in range(0, 600, 12):
        turns(world, second, "Sick")
        turns(world, second + 6, "Sick", on=False)
    at(world, 600)
    assert len(world.jobs) == 1 and not world.jobs[0].acts
    assert world.jobs[0].permit_at is None


def test_person_is_asked_once_the_wait_is_over() -> None:
    world = a_world(rule("sick", "Sick", mode="Approve"))
    sick(world, 0)
    at(world, 9)
    assert world.jobs[0].phase == "Pending"
    at(world, 11)
    assert world.jobs[0].phase == "AwaitingApproval"
