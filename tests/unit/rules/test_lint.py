"""Lint: each code has rules that must have it, and near misses that must not."""

import pytest
from support.lint_cases import (
    CASES,
    EMPTY,
    GUARDS,
    LATCHED,
    LIVE,
    OOPS,
    RESTART,
    Case,
    inferring,
    ladder,
    named,
)

from rules.lint import CODES, LintFinding, lint

OF_FILES = {"unreadable", "invalid", "taken-name", "uncompilable", "unavailable"}


def found(case: Case, changes: dict[str, object]) -> list[LintFinding]:
    return [f for f in lint([named("mine", **changes)], case.beside) if f.code == case.code]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.code} {c.path}")
def test_a_rule_that_must_have_the_finding_has_it_once_at_its_place(case: Case) -> None:
    told = found(case, case.changes)
    assert [(f.rule, f.path) for f in told] == [("mine", case.path)]
    assert told[0].severity is CODES[case.code].severity
    assert ": " in told[0].message  # what is wrong: what to do


@pytest.mark.parametrize(
    ("case", "changes"),
    [(case, miss) for case in CASES for miss in case.misses],
    ids=lambda x: x.code if isinstance(x, Case) else "",
)
def test_a_near_miss_has_not(case: Case, changes: dict[str, object]) -> None:
    assert found(case, changes) == []


def test_every_code_has_its_cases() -> None:
    assert {case.code for case in CASES} | OF_FILES == set(CODES)


def test_a_good_rule_has_no_findings() -> None:
    assert lint([named("good")]) == []


def test_rules_beside_are_never_judged() -> None:
    bad = named("bad", faultClass=None, unless=None)
    assert lint([named("good", priority=900)], [bad]) == []


def test_a_condition_of_the_fleet_is_known() -> None:
    own = named("own", when={"condition": {"type": "OurOwnFault", "for": "1m"}})
    assert [f.code for f in lint([own])] == ["unknown-condition"]
    assert lint([own], conditions=["OurOwnFault"]) == []


def test_a_misspelt_condition_is_told_what_it_was_meant_to_be() -> None:
    [told] = lint([named("r", when={"condition": {"type": "KubeletUnhealty", "for": "1m"}})])
    assert "did you mean KubeletUnhealthy?" in told.message


def test_facts_that_rest_on_one_another_end() -> None:
    first = inferring("first", "my.a", {"fact": {"name": "my.b"}})
    second = inferring("second", "my.b", {"fact": {"name": "my.a"}})
    asking = named("asking", when={"fact": {"name": "my.a"}}, ladder=ladder(*EMPTY))
    assert lint([asking], [first, second]) == []


def test_of_several_rules_that_infer_a_fact_the_weakest_counts() -> None:
    asking = named("asking", when={"fact": {"name": "my.a"}}, ladder=ladder(*EMPTY))
    proven, hinted = (inferring(n, "my.a", w) for n, w in (("one", LIVE), ("two", OOPS)))
    assert lint([asking], [proven]) == []
    assert [f.code for f in lint([asking], [proven, hinted])] == ["unproven-repair"]


def test_many_rules_take_no_time_that_grows_with_their_square() -> None:
    rules = [
        named(f"r{n}", when={"event": {"reason": f"R{n}", "count": 3}}, ladder=ladder(RESTART))
        for n in range(300)
    ]
    assert lint(rules) == []


def test_a_rule_of_latched_evidence_may_still_restart_a_service() -> None:
    codes = [f.code for f in lint([named("r", when=LATCHED, unless=GUARDS)])]
    assert codes == ["latched-alone"]
