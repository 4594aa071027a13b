"""`for` of a probe: all answers of the time fit, without a gap between them."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0
from support.remedy_facts import Facts, a_probe
from support.replay_world import a_rule, a_world, ages, at, sick
from support.rules_builders import a_node

from kubenode.api.v1alpha1.leaves import ProbeLeaf
from remedy.hostprobes.answers import MOST_ANSWERS, ProbeAnswers
from rules.atoms import read
from rules.checks import check
from rules.facts import ProbeFact, Value
from rules.leaves.compare import PROBE_PAUSE
from rules.leaves.describe import describe
from rules.rule import CompileError, RuleVersion
from rules.truth import Truth

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
FULL: dict[str, Any] = {"name": "disk.used_pct", "above": 95, "for": "10m"}
WHEN = {"all": [{"condition": {"type": "Sick"}}, {"probe": FULL}]}


def leaf(**changes: Any) -> ProbeLeaf:
    return ProbeLeaf.model_validate({**FULL, **changes})


# -- in the simulated fleet -----------------------------------------------------------------------


def test_a_disk_that_stays_full_makes_a_job_after_the_time() -> None:
    world = a_world(a_rule(when=WHEN))
    world.answer("a", {"disk": {"used_pct": 97}})
    sick(world, 0)
    at(world, 599)
    assert ages(world) == []
    at(world, 720)
    ((node, rule, made),) = ages(world)
    assert (node, rule) == ("a", "sick") and made >= 600


def test_a_disk_that_is_freed_between_starts_anew() -> None:
    world = a_world(a_rule(when=WHEN))
    world.answer("a", {"disk": {"used_pct": 97}})
    sick(world, 0)
    at(world, 400)
    world.answer("a", {"disk": {"used_pct": 60}})
    at(world, 500)
    world.answer("a", {"disk": {"used_pct": 97}})
    at(world, 1000)
    assert ages(world) == []
    at(world, 1300)
    ((_, _, made),) = ages(world)
    assert made >= 1100


def test_a_host_that_stops_answering_starts_anew() -> None:
    world = a_world(a_rule(when=WHEN))
    world.answer("a", {"disk": {"used_pct": 97}})
    sick(world, 0)
    at(world, 300)
    world.answer("a", {"disk": None})
    at(world, 600)
    world.answer("a", {"disk": {"used_pct": 97}})
    at(world, 1100)
    assert ages(world) == []
    at(world, 1800)
    assert len(ages(world)) == 1


def test_it_is_asked_until_the_time_is_over() -> None:
    world = a_world(a_rule(when=WHEN))
    world.answer("a", {"disk": {"used_pct": 97}})
    sick(world, 0)
    at(world, 590)
    assert 9 <= len(world.list_probes("a")) <= 11


# -- in the store of facts ------------------------------------------------------------------------


def answered(minute: int, node: str = "a", **answer: Any) -> Any:
    asked = T0 + minute * MINUTE
    return a_probe("disk", asked, node, answer=answer, answeredAt=(asked + SECOND).isoformat())


def test_after_a_restart_the_answers_are_those_of_the_probes_that_exist() -> None:
    world = Facts()
    world.node("a")
    world.load(full={"when": WHEN})
    for minute in (4, 2, 0, 3, 1):
        world.store.probe_changed(None, answered(minute, used_pct=97 + minute))
    world.clock.step(5 * MINUTE)
    fact = world.facts("a").probes["disk.used_pct"]
    assert [value for _, value in fact.earlier] == [97, 98, 99, 100] and fact.value == 101
    assert read(leaf(**{"for": "4m"}), world.facts("a"), world.clock.now()).truth is Truth.TRUE
    assert read(leaf(**{"for": "5m"}), world.facts("a"), world.clock.now()).truth is Truth.UNKNOWN


def test_answers_of_an_earlier_machine_do_not_count() -> None:
    world = Facts()
    world.node("a")
    world.load(full={"when": WHEN})
    for minute in (0, 2):
        world.store.probe_changed(None, answered(minute, used_pct=97))
    world.node("a", uid="another", created=T0 + MINUTE)
    world.clock.step(3 * MINUTE)
    assert world.facts("a").probes["disk.used_pct"].earlier == ()


def test_answers_are_bounded_and_go_with_the_last_probe() -> None:
    answers = ProbeAnswers()
    probes = [answered(minute, used_pct=97) for minute in range(MOST_ANSWERS + 20)]
    for probe in probes:
        answers.changed(None, probe)
    now = T0 + timedelta(hours=3)
    assert len(answers.facts("a", now)["disk.used_pct"].earlier) == MOST_ANSWERS - 1
    for probe in probes:
        answers.changed(probe, None)
    assert answers._history == {}


# -- against a naive model ------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(1, 300), st.sampled_from([97, 60, None])), min_size=1),
    st.integers(1, 900),
    st.integers(1, 200),
)
def test_it_holds_if_a_chain_of_fitting_answers_is_long_enough(
    answers: list[tuple[int, Value | None]], lasts: int, age: int
) -> None:
    """Answers from the latest back to the earliest, by the seconds before the one after it."""
    times, back = [], 0
    for seconds, value in answers:
        times.append((T0 - back * SECOND, value))
        back += seconds
    (answered_at, value), *older = times
    fact = ProbeFact(value, answered_at, tuple(reversed(older)))
    asked = leaf(**{"for": f"{lasts}s"}, maxAge=f"{age}s")
    reading = read(asked, a_node(probes={"disk.used_pct": fact}), T0)
    chain = [answered_at]
    for at_, earlier in older:
        if earlier == 60 or (earlier is not None and chain[-1] - at_ > age * SECOND + PROBE_PAUSE):
            break
        if earlier is not None:
            chain.append(at_)
    long_enough = chain[0] - chain[-1] >= lasts * SECOND
    fits: dict[Value | None, Truth]
    fits = {97: Truth.TRUE if long_enough else Truth.UNKNOWN, 60: Truth.FALSE, None: Truth.UNKNOWN}
    assert reading.truth is fits[value]


def test_it_is_described_with_its_time() -> None:
    assert describe(leaf()) == "probe disk.used_pct > 95 for 10m"
    fact = ProbeFact(97, T0)
    young = read(leaf(), a_node(probes={"disk.used_pct": fact}), T0)
    assert young.evidence == "probe disk.used_pct is above 95, not yet for 10m"


def test_a_time_beyond_the_remembered_answers_is_refused() -> None:
    rule = a_rule(when={"all": [WHEN["all"][0], {"probe": {**FULL, "for": "61m"}}]})
    with pytest.raises(CompileError, match="answers are remembered for 1h"):
        check(RuleVersion("r@1", rule))
