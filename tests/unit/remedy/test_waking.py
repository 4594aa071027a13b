"""Who looks again, and when, with nobody who asks every node every minute."""

from datetime import timedelta
from typing import Any

from support.clock import T0
from support.remedy_facts import ZONE, Facts
from support.remedy_hand import Hands

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
    assert len(hands.made()) == 1
