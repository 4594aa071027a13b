"""Facts of a group: inferred on one node, read by all of it, kept for a time, over a restart."""

from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0
from support.remedy_facts import RACK, Facts

from remedy.remedier.inference import MOST_WITNESSES
from rules.truth import Truth

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
SICK: dict[str, Any] = {"condition": {"type": "Sick", "status": "True"}}
DARK: dict[str, Any] = {"condition": {"type": "Dark", "status": "True"}}
POWER = {"fact": "rack.suspectPowerLoss", "scope": "Rack", "for": "10m"}
LOST: dict[str, Any] = {"fact": {"name": "rack.suspectPowerLoss"}}
RULES: dict[str, Any] = {
    "power": {"when": DARK, "infer": POWER},
    "repair": {"when": SICK, "unless": LOST},
    "calm": {"when": {"all": [SICK, {"not": LOST}]}},
}


def a_rack(*names: str, dark: str = "") -> Facts:
    world = Facts()
    for name in names:
        world.node(name, labels={RACK: "r1"}, Sick="True", Dark=str(name == dark))
    world.node("z", labels={RACK: "r2"}, Sick="True", Dark="False")
    return world


def dark(world: Facts, name: str, status: str) -> None:
    world.node(name, labels={RACK: "r1"}, Sick="True", Dark=status)
    world.settle(name)


def fact(world: Facts, name: str = "a") -> object:
    return world.facts(name).inferred["rack.suspectPowerLoss"]


def test_evidence_on_one_node_is_a_fact_for_its_whole_group_and_for_no_other() -> None:
    world = a_rack("a", "b", "c", dark="b")
    world.load(**RULES)
    world.settle()
    assert [fact(world, name) for name in "abcz"] == [True, True, True, False]
    assert world.match("a", "repair").guards is Truth.TRUE
    assert world.match("z", "repair").guards is Truth.FALSE
    assert world.evidence("a", "calm") is Truth.FALSE
    assert world.evidence("z", "calm") is Truth.TRUE


def test_it_is_unknown_until_every_node_was_judged() -> None:
    world = a_rack("a", "b")
    world.load(**RULES)
    assert fact(world) is None
    world.look("a")
    world.look("b")
    assert world.evidence("a", "calm") is Truth.UNKNOWN
    assert world.look("z") == {"a", "b", "z"}, "all look again when it is known"
    assert fact(world) is False


def test_it_is_unknown_while_on_one_node_the_evidence_is() -> None:
    world = a_rack("a", "b")
    world.load(**RULES)
    world.settle()
    dark(world, "b", "Unknown")
    assert fact(world) is None
    assert world.evidence("a", "calm") is Truth.UNKNOWN
    assert fact(world, "z") is False


def test_it_is_kept_for_its_time_after_the_last_evidence() -> None:
    world = a_rack("a", "b", dark="b")
    world.load(**RULES)
    world.settle()
    dark(world, "b", "False")
    assert fact(world) is True
    assert world.store.changes_at("b") == T0 + 10 * MINUTE
    world.clock.step(10 * MINUTE - SECOND)
    assert fact(world) is True
    world.clock.step(SECOND)
    assert fact(world) is False
    assert world.look("b") == {"a", "b"}, "who noticed the end tells the others"


def test_evidence_that_comes_back_in_time_ends_nothing() -> None:
    world = a_rack("a", "b", dark="b")
    world.load(**RULES)
    world.settle()
    for _ in range(3):
        dark(world, "b", "False")
        world.clock.step(9 * MINUTE)
        assert fact(world) is True
        dark(world, "b", "True")
    world.looks.clear()
    dark(world, "b", "False")
    assert world.looks == {"b": 1}, "nothing changed for the others"


def test_a_node_that_goes_leaves_the_time_to_another() -> None:
    world = a_rack("a", "b", dark="b")
    world.load(**RULES)
    world.settle()
    assert world.gone("b") == {"a"}
    assert fact(world) is True
    assert world.store.changes_at("a") == T0 + 10 * MINUTE


def test_what_is_kept_survives_a_restart_by_the_status_of_the_rule() -> None:
    world = a_rack("a", "b", dark="b")
    world.load(**RULES)
    world.settle()
    entries = world.store.wide.entries("power")
    seen = {"group": "r1", "value": True, "nodes": ["b"]}
    assert [e.to_dict() for e in entries] == [seen]
    dark(world, "b", "False")
    entries = world.store.wide.entries("power")
    until = "2026-01-01T12:10:00.000Z"
    assert [e.to_dict() for e in entries] == [{**seen, "until": until, "nodes": []}]

    world.clock.step(4 * MINUTE)
    anew = Facts(world.clock)
    for name in ("a", "b"):
        anew.node(name, labels={RACK: "r1"}, Sick="True", Dark="False")
    said = {"inferred": [entry.to_dict() for entry in entries]}
    anew.load(**{**RULES, "power": {**RULES["power"], "status": said}})
    anew.settle()
    assert fact(anew) is True
    assert anew.store.changes_at("a") == T0 + 10 * MINUTE
    anew.clock.step(6 * MINUTE)
    assert fact(anew) is False
    anew.look("a")
    assert anew.store.wide.entries("power") == []


def test_evidence_that_a_restart_found_gone_counts_as_gone_since_the_restart() -> None:
    anew = a_rack("a", "b")
    said = {"inferred": [{"group": "r1", "value": True}]}
    anew.load(**{**RULES, "power": {**RULES["power"], "status": said}})
    anew.settle()
    assert fact(anew) is True
    anew.clock.step(10 * MINUTE)
    assert fact(anew) is False


def test_what_did_not_fit_into_the_status_is_unknown_for_as_long_as_it_could_be_kept() -> None:
    world = a_rack("a", "b")
    full = [{"group": f"other-{i}", "value": True} for i in range(64)]
    world.load(**{**RULES, "power": {**RULES["power"], "status": {"inferred": full}}})
    world.settle()
    assert fact(world) is None
    world.clock.step(10 * MINUTE)
    assert fact(world) is False


def test_the_status_changes_only_when_something_happens() -> None:
    world = a_rack("a", "b", "c", dark="b")
    told: list[str] = []
    world.store.wide.changed = told.append
    world.load(**RULES)
    world.settle()
    assert told == ["power"]
    dark(world, "c", "True")
    world.clock.step(MINUTE)
    world.settle()
    assert told == ["power"] * 2, "two nodes are named as evidence"
    dark(world, "b", "False")
    dark(world, "c", "False")
    assert told == ["power"] * 4
    for _ in range(9):
        world.clock.step(MINUTE)
        world.settle()
    assert told == ["power"] * 4
    world.clock.step(MINUTE)
    world.settle()
    assert told == ["power"] * 5


def test_a_storm_names_the_first_nodes_and_writes_for_no_more() -> None:
    names = [f"n{i:02}" for i in range(20)]
    world = a_rack(*names)
    told: list[str] = []
    world.store.wide.changed = told.append
    world.load(**RULES)
    world.settle()
    for name in reversed(names):
        dark(world, name, "True")
    (entry,) = world.store.wide.entries("power")
    assert entry.nodes == list(reversed(names))[:MOST_WITNESSES]
    assert len(told) == MOST_WITNESSES
    dark(world, "n00", "False")
    assert len(told) == MOST_WITNESSES, "one that is not named"
    dark(world, "n19", "False")
    assert len(told) == MOST_WITNESSES + 1
    (entry,) = world.store.wide.entries("power")
    assert len(entry.nodes) == MOST_WITNESSES and "n19" not in entry.nodes


def test_a_new_version_of_the_rule_keeps_what_was_to_be_kept() -> None:
    world = a_rack("a", "b", dark="b")
    world.load(**RULES)
    world.settle()
    both = {"all": [DARK, {"condition": {"type": "Darker", "status": "True"}}]}
    world.load(**{**RULES, "power": {"when": both, "infer": POWER, "generation": 2}})
    world.settle()
    assert fact(world) is True
    assert world.store.changes_at("a") == T0 + 10 * MINUTE


def test_evidence_that_the_engines_dispute_is_no_fact_and_no_absence_of_one() -> None:
    world = a_rack("a", "b", dark="b")
    world.load(**RULES)
    world.diagnoser.check.quarantined["power@1"] = "the engines disagree about it"
    world.settle()
    assert fact(world) is None
    assert world.match("a", "repair").guards is Truth.UNKNOWN
    assert world.evidence("a", "calm") is Truth.UNKNOWN


def test_a_fact_of_one_node_that_is_kept_is_a_group_of_one() -> None:
    lately = {"fact": "node.wasDark", "scope": "Node", "for": "5m"}
    world = a_rack("a", "b", dark="b")
    world.load(was={"when": DARK, "infer": lately})
    world.settle()
    dark(world, "b", "False")
    assert [world.facts(n).inferred["node.wasDark"] for n in "ab"] == [False, True]
    world.clock.step(5 * MINUTE)
    assert world.facts("b").inferred["node.wasDark"] is False


@pytest.mark.parametrize("deletion_observed", [True, False])
def test_a_fact_of_one_node_does_not_outlive_its_machine(deletion_observed: bool) -> None:
    lately = {"fact": "node.wasDark", "scope": "Node", "for": "5m"}
    world = a_rack("a", "b", dark="b")
    world.load(was={"when": DARK, "infer": lately})
    world.settle()
    dark(world, "b", "False")
    if deletion_observed:
        world.gone("b")
    world.node("b", uid="of-another-machine", labels={RACK: "r1"}, Sick="True", Dark="False")
    world.settle("b")
    assert world.facts("b").inferred["node.wasDark"] is False
    assert world.store.changes_at("b") is None
    assert world.store.wide.entries("was") == []


def test_a_node_without_the_label_has_no_such_group_and_no_such_fact() -> None:
    world = a_rack("a", dark="a")
    world.node("loose", Sick="True", Dark="True")
    world.load(**RULES)
    world.settle()
    assert fact(world, "loose") is False


@pytest.mark.exhaustive
def test_500_nodes_that_go_dark_at_once_are_judged_a_few_times_each() -> None:
    names = [f"n{i:04}" for i in range(500)]
    world = a_rack(*names)
    count = {"fact": {"name": "rack.sameFault", "above": 3}}
    world.load(**{**RULES, "power": {"when": {"all": [DARK, count]}, "infer": POWER}})
    world.settle()
    world.looks.clear()
    for name in names:
        world.node(name, labels={RACK: "r1"}, Sick="True", Dark="True")
    world.settle()
    assert fact(world, "n0499") is True
    assert sum(world.looks.values()) <= 4 * 500


def test_nodes_of_which_the_same_is_inferred_are_told_one_mapping() -> None:
    world = a_rack("a", "b", "c", dark="b")
    world.load(**RULES)
    world.settle()
    assert world.facts("a").inferred is world.facts("c").inferred
    assert world.facts("z").inferred["rack.suspectPowerLoss"] is False
