"""Who looks again, and when, with nobody who asks every node every minute."""

from datetime import timedelta
from typing import Any

from support.clock import T0
from support.remedy_facts import ZONE, Facts
from support.remedy_hand import Hands
from support.running import running

from remedy.job.model import Job
from remedy.remedier.judge import Judge
from rules.truth import Truth

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
LONG_AGO = T0 - timedelta(days=2)
SICK: dict[str, Any] = {"condition": {"type": "Sick", "status": "True"}}
DARK_ZONE: dict[str, Any] = {"fact": {"name": "zone.unhealthyRatio", "above": 0.4}}


def zones() -> Facts:
    world = Facts()
    for i in range(10):
        world.node(f"n{i}", labels={ZONE: "z1" if i < 5 else "z2"})
    world.load(dark={"when": DARK_ZONE})
    world.settle()
    world.looks.clear()
    return world


def test_a_zone_looks_again_when_its_figure_passes_a_bound_of_a_rule() -> None:
    world = zones()
    for name in ("n0", "n1"):
        world.node(name, labels={ZONE: "z1"}, Ready="False")
        world.settle(name)
    assert world.looks == {"n0": 1, "n1": 1}, "two of five: 0.4 is not above 0.4"
    world.node("n2", labels={ZONE: "z1"}, Ready="False")
    world.settle("n2")
    assert world.looks == {"n0": 2, "n1": 2, "n2": 2, "n3": 1, "n4": 1}
    assert world.evidence("n4", "dark") is Truth.TRUE
    assert world.evidence("n5", "dark") is Truth.FALSE


def test_a_zone_looks_again_when_a_node_leaves_it() -> None:
    world = zones()
    for name in ("n0", "n1"):
        world.node(name, labels={ZONE: "z1"}, Ready="False")
        world.settle(name)
    assert world.gone("n4") == {"n0", "n1", "n2", "n3"}
    assert world.evidence("n3", "dark") is Truth.TRUE


async def test_a_rule_over_time_wakes_at_its_bound_and_not_before() -> None:
    hands = Hands()
    await hands.rule(when={"fact": {"name": "node.notReadyFor", "above": 600}})
    hands.node(Ready=("False", T0))
    wake = await hands.decide()
    assert wake is not None and timedelta(0) <= wake - 600 * SECOND < SECOND
    assert hands.made() == []
    await hands.later(wake)
    assert len(hands.made()) == 1


# -- a guard that only the host can answer ---------------------------------------------------------


async def a_guarded_cluster() -> Hands:
    hands = Hands()
    guard = {"probe": {"name": "host.d_state_process", "is": False}}
    await hands.rule(when=SICK, unless=guard)
    hands.node(Ready=("True", LONG_AGO), Sick=("True", LONG_AGO))
    return hands


async def test_a_guard_that_is_asked_of_the_host_holds_until_the_answer() -> None:
    hands = await a_guarded_cluster()
    await hands.decide()
    assert hands.made() == []
    hands.clock.step(SECOND)
    hands.answers("host", d_state_process=True)
    await hands.settle()
    assert len(hands.made()) == 1


async def test_a_guard_whose_answer_grows_old_lets_nothing_through_meanwhile() -> None:
    hands = await a_guarded_cluster()
    await hands.decide()
    hands.answers("host", d_state_process=False)
    await hands.settle()
    for minute in range(1, 6):
        hands.clock.step(MINUTE)
        hands.node(Ready=("True", LONG_AGO), Sick=("True", LONG_AGO))
        await hands.later(timedelta(0))
        assert hands.made() == []
        assert len(hands.probes.cache) == minute + 1, "asked anew"
        hands.answers("host", d_state_process=False)
        await hands.settle()
    assert hands.made() == []


async def test_a_host_that_does_not_answer_leaves_its_guard_unknown() -> None:
    hands = await a_guarded_cluster()
    assert await hands.decide() == 30 * SECOND
    await hands.later(30 * SECOND)
    (job,) = hands.made()
    judge = Judge(hands.operator.evaluator, hands.operator.rules, hands.operator.facts, hands.clock)
    for _ in range(8):  # asked again and again: the job is not held meanwhile
        hands.node(Ready=("True", LONG_AGO), Sick=("True", LONG_AGO))
        async with running(hands.operator.evaluator.run()):
            assert (await judge.fault(Job.of(job))).guards is Truth.FALSE
        await hands.later(MINUTE)
    assert len(hands.probes.cache) > 2


async def test_a_guard_waits_for_no_answer_that_nobody_is_there_to_give() -> None:
    hands = Hands()
    guard = {"probe": {"name": "power.cloud_state", "equals": "running"}}  # no provider is set up
    await hands.rule(when=SICK, unless=guard)
    hands.node(Ready=("True", LONG_AGO), Sick=("True", LONG_AGO))
    await hands.decide()
    assert len(hands.made()) == 1
    assert [p.spec.name for p in hands.probes.cache.values()] == ["power"], "asked all the same"


async def test_but_an_answer_that_somebody_gives_counts() -> None:
    hands = Hands()
    full = {"all": [SICK, {"probe": {"name": "disk.used_pct", "below": 3}}]}
    await hands.rule(when=full)
    hands.node(Ready=("True", LONG_AGO), Sick=("True", LONG_AGO))
    await hands.decide()
    assert hands.made() == []
    hands.answers("disk", used_pct=1)
    await hands.settle()
    assert len(hands.made()) == 1
