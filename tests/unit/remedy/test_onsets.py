"""Counts `within` a time: on how many nodes of a group the fault began lately."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0
from support.remedy_facts import RACK, Facts, a_rule
from support.replay_world import a_rule as a_replayed_rule
from support.replay_world import a_world, ages, at, sick

from kubenode.api.v1alpha1.leaves import FactLeaf
from remedy.remedier.onsets import Onsets, windowed_leaves
from rules.atoms import CountedFact, read
from rules.checks import check
from rules.facts import FactSet
from rules.leaves.describe import describe
from rules.rule import CompileError, RuleVersion
from rules.truth import Truth

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
SICK: dict[str, Any] = {"condition": {"type": "Sick", "status": "True"}}


def lately(above: int = 2, within: str = "5m", scope: str = "rack") -> dict[str, Any]:
    fact = {"name": f"{scope}.sameFault", "above": above, "within": within}
    return {"all": [SICK, {"fact": fact}]}


def a_rack(world: Facts, *sick: str, well: tuple[str, ...] = ()) -> None:
    for name in (*sick, *well):
        status = ("True" if name in sick else "False", world.clock.now())
        world.node(name, labels={RACK: "r1"}, Sick=status)


# -- in the store of facts ------------------------------------------------------------------------


def test_three_nodes_of_a_rack_that_fail_within_the_time_are_counted() -> None:
    world = Facts()
    a_rack(world, well=("a", "b", "c"))
    world.load(storm={"when": lately()})
    world.settle()
    for name in ("a", "b"):
        a_rack(world, name)
        world.settle(name)
        assert world.evidence(name, "storm") is Truth.FALSE
        world.clock.step(MINUTE)
    a_rack(world, "c")
    assert world.look("c") == {"a", "b", "c"}, "all with the fault match now"
    assert {world.evidence(name, "storm") for name in "abc"} == {Truth.TRUE}
    world.clock.step(3 * MINUTE)
    assert world.evidence("c", "storm") is Truth.FALSE, "the first began five minutes ago"


def test_nodes_that_fail_slowly_one_after_the_other_are_not() -> None:
    world = Facts()
    a_rack(world, well=("a", "b", "c"))
    world.load(storm={"when": lately()})
    world.settle()
    for name in ("a", "b", "c"):
        a_rack(world, name)
        world.settle(name)
        world.clock.step(3 * MINUTE)
    assert {world.evidence(name, "storm") for name in "abc"} == {Truth.FALSE}


def test_a_fault_that_ended_counts_and_one_that_flaps_counts_once() -> None:
    world = Facts()
    a_rack(world, well=("a", "b", "c"))
    world.load(storm={"when": lately()})
    world.settle()
    for name in ("a", "a", "b"):
        a_rack(world, name)
        world.settle(name)
        world.clock.step(20 * SECOND)
        a_rack(world, well=(name,))
        world.settle(name)
    assert len(world.facts("a").onsets["storm@1"]["rack"]) == 2
    a_rack(world, "c")
    world.settle("c")
    assert world.evidence("c", "storm") is Truth.TRUE
    assert world.evidence("a", "storm") is Truth.FALSE, "it is healthy itself"


def test_other_racks_and_nodes_that_left_do_not_count() -> None:
    world = Facts()
    a_rack(world, well=("a", "b", "c"))
    world.node("d", labels={RACK: "r2"}, Sick="True")
    world.load(storm={"when": lately()})
    world.settle()
    a_rack(world, "a", "b", "c")
    world.settle()
    assert world.evidence("d", "storm") is Truth.FALSE
    world.node("b", labels={RACK: "r2"}, Sick="True")
    world.settle()
    assert world.evidence("a", "storm") is Truth.FALSE
    world.node("b", labels={RACK: "r1"}, Sick="True")
    world.settle()
    assert world.evidence("a", "storm") is Truth.TRUE
    world.gone("c")
    assert world.evidence("a", "storm") is Truth.FALSE


def test_after_a_restart_old_faults_are_old_and_new_ones_new() -> None:
    began = {"a": T0 - MINUTE, "b": T0 - 2 * MINUTE, "c": T0 - 20 * MINUTE, "d": T0 - 3 * MINUTE}
    world = Facts()
    for name, since in began.items():
        world.node(name, labels={RACK: "r1"}, Sick=("True", since))
    world.load(three={"when": lately(2)}, four={"when": lately(3)})
    assert world.look("a") == set()
    assert world.evidence("a", "three") is Truth.UNKNOWN, "not every node was evaluated"
    world.settle()
    assert world.evidence("a", "three") is Truth.TRUE
    assert world.evidence("a", "four") is Truth.FALSE, "c is long sick"


def test_evidence_without_a_start_time_is_old_at_first_sight() -> None:
    world = Facts()
    for name in "abc":
        world.node(name, labels={RACK: "r1"})
        world.event(f"e-{name}", "Oops", name)
    when = lately()["all"][1]
    world.load(storm={"when": {"all": [{"event": {"reason": "Oops", "within": "1h"}}, when]}})
    world.settle()
    assert world.evidence("a", "storm") is Truth.FALSE


def test_a_step_of_the_clock_keeps_the_ages() -> None:
    world = Facts()
    a_rack(world, well=("a", "b", "c"))
    world.load(storm={"when": lately()})
    world.settle()
    a_rack(world, "a", "b", "c")
    world.settle()
    world.clock.set_wall(timedelta(hours=3))
    assert world.evidence("a", "storm") is Truth.TRUE


# -- against a naive model ------------------------------------------------------------------------


STEPS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from([*Truth, None]), st.integers(0, 90)),
    max_size=25,
)
GROUP = ("rack", "r1")


@given(STEPS, st.integers(0, 3), st.integers(10, 200))
def test_beginnings_are_those_of_a_naive_model(
    steps: list[tuple[str, Truth | None, int]], above: int, within: int
) -> None:
    rule = a_rule("storm", when=lately(above, f"{within}s"))
    onsets, now = Onsets(rule, windowed_leaves(rule)), T0
    began: dict[str, datetime] = {}
    state: dict[str, Truth] = {}
    for node, truth, pause in steps:
        now += pause * SECOND
        begin = now - within * SECOND
        was = sum(at > begin for at in began.values()) > above
        woken = onsets.learned(node, (GROUP,), truth, now, lambda n, r: T0)
        if truth is Truth.TRUE and state.get(node) is not Truth.TRUE:
            began[node] = now if node in state else T0
        if truth is None:
            began.pop(node, None)
            state.pop(node, None)
        elif truth is not Truth.UNKNOWN:
            state[node] = truth
        recent = sorted(at for at in began.values() if at > begin)
        assert [at for at in onsets.of(GROUP) if at > begin] == recent
        if was is not (len(recent) > above):
            assert woken == {name for name, known in state.items() if known is Truth.TRUE}
        else:
            assert woken == set()


@given(
    st.lists(st.integers(-300, 0), max_size=6),
    st.integers(0, 4),
    st.integers(1, 300),
    st.sampled_from(["above", "below", "equals"]),
)
def test_the_answer_stands_until_it_flips_and_changes_then(
    began: list[int], bound: int, within: int, comparison: str
) -> None:
    fact = {"name": "rack.sameFault", comparison: bound, "within": f"{within}s"}
    atom = CountedFact("r@1", FactLeaf.model_validate(fact))
    onsets = tuple(T0 + n * SECOND for n in sorted(began))
    facts = FactSet("a", onsets={"r@1": {"rack": onsets}})
    first = read(atom, facts, T0)
    if first.flips_at is not None:
        assert first.flips_at > T0
        assert read(atom, facts, first.flips_at).truth is not first.truth
    for after in range(1, 320, 3):
        instant = T0 + after * SECOND
        if first.flips_at is None or instant < first.flips_at:
            assert read(atom, facts, instant).truth is first.truth


# -- as a rule ------------------------------------------------------------------------------------


def test_a_rule_notifies_about_three_nodes_of_a_rack_once() -> None:
    tell = [{"name": "tell", "steps": [{"notify": {}}]}]
    rule = a_replayed_rule(when=lately(), ladder=tell, once={"per": "Rack"})
    world = a_world(rule, nodes=())
    for name in "abcd":
        world.add_node(name, labels={RACK: "r1" if name != "d" else "r2"})
    for seconds, name in ((0, "a"), (100, "b"), (110, "d"), (290, "c")):
        sick(world, seconds, name)
    at(world, 3600)
    assert ages(world) == [("a", "sick", 290)]


def test_a_slow_series_makes_no_job() -> None:
    world = a_world(a_replayed_rule(when=lately()), nodes=())
    for n, name in enumerate("abcd"):
        world.add_node(name, labels={RACK: "r1"})
        sick(world, n * 160, name)
    at(world, 3600)
    assert ages(world) == []


def test_it_is_described_with_its_time() -> None:
    leaf = FactLeaf.model_validate({"name": "rack.sameFault", "above": 2, "within": "5m"})
    assert describe(leaf) == "fact rack.sameFault within 5m > 2"


@pytest.mark.parametrize(
    ("fact", "why"),
    [
        ({"name": "node.age", "above": 2, "within": "5m"}, "has no beginning to count"),
        ({"name": "rack.sameFault", "above": 2, "within": "0s"}, "more than 0s"),
        ({"name": "rack.sameFault", "above": 2, "within": "25h"}, "at most 24h"),
    ],
)
def test_a_time_that_cannot_be_counted_is_refused(fact: dict[str, Any], why: str) -> None:
    rule = a_replayed_rule(when={"all": [SICK, {"fact": fact}]})
    with pytest.raises(CompileError, match=why):
        check(RuleVersion("r@1", rule))
