"""What may reach durable_rules: the compiled form, and nothing else."""

from typing import Any

import pytest
from hypothesis import given
from support.rules_builders import programs

from rules.engines.program_index import terms
from rules.engines.ruleset import MOST_PROPERTIES, MOST_TERMS, fnv, refusal, rulesets
from rules.program import RuleVersion, compile_program

GOOD: dict[str, Any] = {
    "rules": {"r0ep#0": {"all": [{"m": {"$and": [{"k": "eval"}, {"t0": True}]}}]}},
    "slots": [0],
}


@given(programs())
@pytest.mark.exhaustive
def test_everything_the_compiler_makes_is_acceptable(rules: list[RuleVersion]) -> None:
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


def test_rules_stay_together_and_every_term_has_its_place() -> None:
    groups = [[(f"r{n}ep#{k}", [(n, True), (k, False)]) for k in range(5)] for n in range(40)]
    made, places = rulesets(groups)
    for terms_, where in zip(groups, places, strict=True):
        (number,) = where
        assert {name for name, _ in terms_} <= set(made[number]["rules"])
    assert sum(len(ruleset["rules"]) for ruleset in made) == 200
    assert len(made) < 10


def test_rule_that_fills_more_than_a_ruleset_is_spread() -> None:
    terms_ = [(f"r0ep#{k}", [(k, True)]) for k in range(3 * MOST_TERMS)]
    made, places = rulesets([[("r1ep#0", [(0, True)])], terms_, [("r2ep#0", [(0, True)])]])
    assert places[1] == [1, 2, 3]
    spread = [name for number in places[1] for name in made[number]["rules"]]
    assert set(spread) >= {name for name, _ in terms_}
    assert all(refusal(ruleset) == "" for ruleset in made)


CLASH = (6059, 264602)
"""The first two slots whose properties durable_rules would take for one: f6059 and f264602."""


def test_two_hosts_of_the_documented_clash_are_one_name() -> None:
    assert fnv("ip-10-3-242-179.ec2.internal") == fnv("ip-10-5-23-134.ec2.internal")


def test_names_that_durable_rules_takes_for_one_never_share_a_ruleset() -> None:
    one, other = CLASH
    made, places = rulesets([[("r0ep#0", [(one, True)])], [("r1ep#0", [(other, True)])]])
    assert places == [[0], [1]]
    both = {"rules": {**made[0]["rules"], **made[1]["rules"]}, "slots": [one, other]}
    assert "one name" in refusal(both)


def test_the_pattern_is_taken() -> None:
    assert refusal(GOOD) == ""


@pytest.mark.parametrize("name", BAD)
def test_any_other_shape_is_refused(name: str) -> None:
    assert refusal(BAD[name])
