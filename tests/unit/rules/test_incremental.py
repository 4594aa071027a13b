"""What is said of a node after many signals is what looking at it for the first time would give."""

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import example, given, settings
from support.clock import T0
from support.rules_builders import a_rule
from support.rules_timelines import LEAVES, LIVES, Life, Step

from rules.diagnose import Diagnoser, Diagnosis, Match
from rules.facts import FactSet
from rules.program import RuleVersion
from rules.truth import Truth

BOTH = [{"all": [LEAVES[n], LEAVES[-1 - n]]} for n in range(6)]
DERIVED: dict[str, Any] = {"fact": {"name": "d.near"}}
WINDOW = {"days": ["Thu"], "from": "12:00", "to": "12:10"}
WIDE: dict[str, Any] = {"fact": {"name": "d.wide"}}


def rules() -> list[RuleVersion]:
    """One on each kind of leaf, some on two, and some that chain."""
    return [
        *(a_rule(f"r{n}", when=when) for n, when in enumerate((*LEAVES, *BOTH))),
        a_rule("near", when={"any": [LEAVES[3], LEAVES[8]]}, infer={"fact": "d.near"}),
        a_rule("wide", infer={"fact": "d.wide", "scope": "Zone"}),
        a_rule("not-near", when={"not": DERIVED}, unless={"any": [WIDE, LEAVES[15]]}),
        a_rule("gpu", when=DERIVED, nodes={"selector": {"matchLabels": {"pool": "gpu"}}}),
        a_rule("window", when={"fact": {"name": "time.inWindow", "window": WINDOW}}),
    ]


RULES = rules()
IDS = [rule.id for rule in RULES]


def loaded() -> Diagnoser:
    diagnoser = Diagnoser()
    assert not diagnoser.load(RULES).rejected
    return diagnoser


OLD, NEW = loaded(), loaded()


def test_every_part_of_a_factset_is_compared() -> None:
    assert {field.name for field in fields(FactSet)} == COMPARED


COMPARED = {
    "node", "uid", "labels", "annotations", "taints", "conditions", "events", "host_events",
    "alerts", "alerts_alive_at", "probes", "values", "inferred", "same_fault", "fresh", "watched",
    "changed", "unchanged_since", "sources_alive_at", "unheard", "stale", "onsets",
}  # fmt: skip
"""A new field belongs into rules.invalidation, and into the lives of support.rules_timelines."""


def said(found: Diagnosis) -> list[Any]:
    return [(*_plain(m), m.readings) for m in found.matches]


def _plain(match: Match) -> tuple[Any, ...]:
    names = ("rule_id", "evidence", "guards", "agreement", "true_leaves", "others", "probes")
    return tuple(getattr(match, name) for name in names)


@settings(deadline=None)
@given(LIVES)
@example([Step(30, "deaf", 1, 1), Step(0, "beat", 0, 1)])
@pytest.mark.exhaustive
def test_incremental_is_from_scratch(life: list[Step]) -> None:
    node = Life(*IDS)
    OLD.forget()
    for step in life:
        facts = node.take(step)
        NEW.forget()
        (found,), (fresh,) = (d.diagnose([facts], node.now) for d in (OLD, NEW))
        assert said(found) == said(fresh)
        if found.flips_at is not None:
            assert found.flips_at > node.now
        if fresh.flips_at is not None:  # never later: it would be missed
            assert found.flips_at is not None and found.flips_at <= fresh.flips_at


def test_of_the_built_in_facts_only_those_that_are_asked_are_remembered() -> None:
    old = Diagnoser()
    assert not old.load(
        [a_rule("young", when={"fact": {"name": "node.age", "below": 60}})]
    ).rejected
    young = FactSet("n1", values={"node.age": 5.0, "node.kernel": "6.1"})
    assert old.diagnose([young], T0)[0].matches[0].evidence is Truth.TRUE
    assert [dict(node.facts.values) for node in old._nodes.values()] == [{"node.age": 5.0}]
    grown = FactSet("n1", values={"node.age": 61.0, "node.kernel": "6.1"})
    assert old.diagnose([grown], T0)[0].matches[0].evidence is Truth.FALSE
