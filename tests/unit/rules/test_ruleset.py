"""What may reach durable_rules: the compiled form, and nothing else."""

from typing import Any

import pytest
from hypothesis import given
from support.rules_builders import programs

from rules.engines.packed import terms
from rules.engines.ruleset import MOST_PROPERTIES, MOST_TERMS, refusal, rulesets
from rules.program import Rule, compile_program

GOOD: dict[str, Any] = {
    "rules": {"r0ep#0": {"all": [{"m": {"$and": [{"k": "eval"}, {"t0": True}]}}]}},
    "slots": [0],
}


@given(programs())
def test_everything_the_compiler_makes_is_acceptable(rules: list[Rule]) -> None:
    for stratum in compile_program(rules).strata:
        for ruleset in rulesets([terms(rule) for rule in stratum])[0]:
            assert refusal(ruleset) == ""
            assert len(ruleset["rules"]) <= MOST_TERMS
            assert 2 * len(ruleset["slots"]) <= MOST_PROPERTIES


def with_pattern(*asked: Any) -> dict[str, Any]:
    return {**GOOD, "rules": {"r0ep#0": {"all": [{"m": {"$and": [*asked]}}]}}}


BAD: dict[str, Any] = {
    "not a mapping": [],
    "other key": {**GOOD, "code": 1},
    "no rules": {**GOOD, "rules": {}},
    "too many rules": {**GOOD, "rules": {f"r{n}ep#0": {} for n in range(MOST_TERMS + 1)}},
    "name of a person": {**GOOD, "rules": {"kernel": GOOD["rules"]["r0ep#0"]}},
    "slot that is no number": {**GOOD, "slots": [True]},
    "slot twice": {**GOOD, "slots": [0, 0]},
    "any": {**GOOD, "rules": {"r0ep#0": {"any": [{"m": {"$and": [{"k": "eval"}]}}]}}},
    "two patterns": {**GOOD, "rules": {"r0ep#0": {"all": [{"m": {}}, {"n": {}}]}}},
    "empty and": with_pattern(),
    "kind only": with_pattern({"k": "eval"}),
    "kind not first": with_pattern({"t0": True}, {"k": "eval"}),
    "not a slot": with_pattern({"k": "eval"}, {"t9": True}),
    "false": with_pattern({"k": "eval"}, {"t0": False}),
    "one for true": with_pattern({"k": "eval"}, {"t0": 1}),
    "greater": with_pattern({"k": "eval"}, {"$gt": {"t0": 1}}),
    "regex": with_pattern({"k": "eval"}, {"t0": {"$regex": ".*"}}),
    "nested and": with_pattern({"k": "eval"}, {"$and": [{"t0": True}]}),
    "other sid": with_pattern({"k": "eval"}, {"sid": True}),
    "count": {**GOOD, "rules": {"r0ep#0": {**GOOD["rules"]["r0ep#0"], "count": -1}}},
}


def test_the_pattern_is_taken() -> None:
    assert refusal(GOOD) == ""


@pytest.mark.parametrize("name", BAD)
def test_any_other_shape_is_refused(name: str) -> None:
    assert refusal(BAD[name])
