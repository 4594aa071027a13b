"""The API server is away: what was reported before it has not lasted through that time."""

from datetime import timedelta

import pytest
from support.clock import T0
from support.remedy_facts import Facts
from support.remedy_hand import Hands
from support.rules_builders import a_condition, a_node, seconds

from kubenode.api.v1alpha1 import Expression
from rules.atoms import LeafReading, read
from rules.truth import Truth
from rules.unheard import unheard

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
AWAY = 300.0
LONG_AGO = T0 - timedelta(days=2)


async def a_flap(since: timedelta = 5 * SECOND) -> Hands:
    """A fault is reported, and then nobody can say that it is over for AWAY; the server is back."""
    hands = Hands()
    await hands.rule()  # Sick for 30s
    hands.node(Ready=("True", LONG_AGO), Sick=("False", LONG_AGO))
    await hands.decide()
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0))
    hands.clock.step(since)
    hands.clock.step(timedelta(seconds=AWAY))
    hands.current()
    hands.nodes.deaf(AWAY)
    return hands


async def test_a_fault_that_may_have_gone_unheard_makes_no_job() -> None:
    hands = await a_flap()
    assert await hands.decide() == 25 * SECOND
    assert hands.made() == []
    await hands.later(10 * SECOND)
    hands.node(Ready=("True", LONG_AGO), Sick=("False", hands.clock.now()))
    await hands.later(MINUTE)
    assert hands.made() == []


async def test_a_fault_that_nobody_takes_back_is_healed() -> None:
    hands = await a_flap()
    await hands.decide()
    await hands.later(24 * SECOND)
    assert hands.made() == []
    await hands.later(1 * SECOND)
    (job,) = hands.made()
    assert job.spec.trigger.first_true == T0


async def test_a_reporter_that_speaks_again_says_that_it_was_so_all_the_time() -> None:
    hands = await a_flap()
    await hands.decide()
    hands.node(Ready=("True", LONG_AGO), Sick=("True", T0))
    await hands.decide()
    assert len(hands.made()) == 1


async def test_what_had_lasted_long_enough_before_needs_no_time_more() -> None:
    hands = await a_flap(since=30 * SECOND)
    await hands.decide()
    assert len(hands.made()) == 1


def reading(*gaps: tuple[float, float], heard: float = 0.0, now: float = 100.0) -> LeafReading:
    leaf = Expression.model_validate({"condition": {"type": "Fault", "for": "60s"}}).leaf
    assert leaf is not None
    times = [(T0 + seconds(since), T0 + seconds(until)) for since, until in gaps]
    facts = a_node(a_condition(heard=T0 + seconds(heard)), unheard=tuple(times))
    return read(leaf, facts, T0 + seconds(now))


@pytest.mark.parametrize(
    ("gaps", "heard", "now", "truth", "known_after"),
    [
        ([], 0, 60, Truth.TRUE, None),
        ([(10, 50)], 0, 59, Truth.FALSE, None),
        ([(10, 50)], 0, 60, Truth.UNKNOWN, 100),
        ([(10, 50)], 0, 99, Truth.UNKNOWN, 100),
        ([(10, 50)], 0, 100, Truth.TRUE, None),
        ([(10, 30), (50, 60)], 0, 70, Truth.UNKNOWN, 90),
        ([(-50, -10)], 0, 60, Truth.TRUE, None),
        ([(-50, -10)], -600, 60, Truth.TRUE, None),
        ([(10, 50)], -600, 60, Truth.UNKNOWN, 100),
        ([(-50, 20)], 0, 60, Truth.UNKNOWN, 80),
        ([(10, 50)], 30, 70, Truth.UNKNOWN, 80),
        ([(10, 50)], 50, 60, Truth.TRUE, None),
    ],
)
def test_time_in_which_nobody_was_heard_is_no_time_held(
    gaps: list[tuple[float, float]],
    heard: float,
    now: float,
    truth: Truth,
    known_after: float | None,
) -> None:
    found = reading(*gaps, heard=heard, now=now)
    assert found.truth is truth
    if known_after is not None:
        assert found.flips_at == T0 + seconds(known_after)
        assert found.finding == "is True (Because), not for 1m in which its reporter could be heard"


@pytest.mark.parametrize(
    ("gaps", "heard", "now", "truth"),
    [
        ([], 0, 60, Truth.TRUE),
        ([(10, 50)], 0, 60, Truth.UNKNOWN),
        ([(10, 50)], 0, 99, Truth.UNKNOWN),
        ([(10, 50)], 0, 100, Truth.TRUE),
        ([(10, 50)], 50, 60, Truth.TRUE),
    ],
)
def test_nor_is_it_time_in_which_something_was_absent(
    gaps: list[tuple[float, float]], heard: float, now: float, truth: Truth
) -> None:
    absent = {"condition": {"type": "Fault"}, "for": "60s"}
    leaf = Expression.model_validate({"absent": absent}).leaf
    assert leaf is not None
    times = [(T0 + seconds(since), T0 + seconds(until)) for since, until in gaps]
    well = a_condition(status="False", heard=T0 + seconds(heard))
    assert read(leaf, a_node(well, unheard=times), T0 + seconds(now)).truth is truth


def test_events_are_watched_since_the_last_gap() -> None:
    facts = Facts()
    facts.node("n1", Ready="True")
    facts.clock.step(timedelta(seconds=AWAY))
    known = facts.store.facts("n1")
    assert known is not None and known.watched == T0
    passed = facts.clock.monotonic()
    facts.nodes.gaps = [(passed - 20, passed - 10)]
    known = facts.store.facts("n1")
    assert known is not None and known.watched == facts.clock.now() - 10 * SECOND


def test_gaps_count_from_the_reporters_last_word_until_now() -> None:
    gaps = [(T0, T0 + 10 * SECOND), (T0 + 20 * SECOND, T0 + 40 * SECOND)]
    for heard, now, found in [(0, 60, 30), (5, 60, 25), (15, 30, 10), (40, 60, 0), (0, 5, 5)]:
        assert unheard(gaps, T0 + seconds(heard), T0 + seconds(now)) == seconds(found)


def test_a_node_that_was_not_heard_is_not_ready_for_no_longer() -> None:
    facts = Facts()
    facts.node("n1", Ready=("False", T0 - MINUTE))
    facts.clock.step(timedelta(seconds=AWAY))
    began = facts.clock.monotonic() - AWAY
    facts.nodes.gaps = [(began, facts.clock.monotonic())]
    known = facts.store.facts("n1")
    assert known is not None
    assert known.values["node.notReadyFor"] == 60.0
    again = facts.store.facts("n1")
    assert again is not None and again.unheard is known.unheard, "nothing has to be read again"


def test_gaps_keep_their_place_when_our_clock_is_set() -> None:
    facts = Facts()
    facts.node("n1", Ready="True")
    facts.nodes.gaps = [(facts.clock.monotonic() - 20, facts.clock.monotonic() - 10)]
    facts.store.facts("n1")
    facts.clock.set_wall(timedelta(hours=1))
    known = facts.store.facts("n1")
    assert known is not None
    now = facts.clock.now()
    assert known.unheard == ((now - 20 * SECOND, now - 10 * SECOND),)
