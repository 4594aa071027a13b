"""The reference engine against an oracle, and the cross-check against an engine that lies."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clock import T0
from support.rules_builders import STATUSES, a_condition, a_node, a_rule, programs, status_facts
from support.rules_engines import Second, Silent, diagnoser_with
from support.rules_oracle import Oracle
from support.rules_timelines import LEAVES, LIVES, Life, Step

from rules.diagnose import Agreement, Diagnoser, Match
from rules.program import RuleVersion
from rules.truth import Truth


def matches(diagnoser: Diagnoser, statuses: Sequence[str]) -> dict[str, Match]:
    found = diagnoser.diagnose([status_facts(statuses)], T0)[0]
    return {match.rule_id: match for match in found.matches}


@settings(deadline=None)
@given(programs(), STATUSES)
@pytest.mark.exhaustive
def test_reference_says_what_looking_from_the_top_gives(
    rules: list[RuleVersion], statuses: list[str]
) -> None:
    diagnoser = Diagnoser()
    refused = diagnoser.load(rules).rejected
    found = matches(diagnoser, statuses)
    for rule in (r for r in rules if r.id not in refused):
        oracle = Oracle(rules, status_facts(statuses))
        assert found[rule.id].evidence is Truth.of(oracle.evidence(rule))
        assert found[rule.id].guards is Truth.of(oracle.guards(rule))


@settings(deadline=None)
@given(programs(), STATUSES, st.data())
@pytest.mark.exhaustive
def test_learning_an_unknown_never_withdraws_what_was_known(
    rules: list[RuleVersion], statuses: list[str], data: st.DataObject
) -> None:
    diagnoser = Diagnoser()
    diagnoser.load(rules)
    before = matches(diagnoser, statuses)
    learnt = [
        data.draw(st.sampled_from(["True", "False"])) if s == "Unknown" else s for s in statuses
    ]
    after = matches(diagnoser, learnt)
    for id_, match in before.items():
        if match.evidence is not Truth.UNKNOWN:
            assert after[id_].evidence is match.evidence


def liar(number: int | None) -> Second:
    """It turns the evidence of one rule round; a new child lies as well."""
    second = Second()
    if number is not None:
        second.lie = lambda question: second.about(number, question)
    return second


@settings(deadline=None)
@given(programs(), STATUSES, st.integers(0, 4))
@pytest.mark.exhaustive
def test_agreed_is_what_both_say_and_no_lie_reaches(
    rules: list[RuleVersion], statuses: list[str], lie: int
) -> None:
    diagnoser = diagnoser_with(liar(lie))
    refused = diagnoser.load(rules).rejected
    good = [r for r in rules if r.id not in refused]
    disputed = good[lie].id if lie < len(good) else ""
    facts = status_facts(statuses)
    for match in matches(diagnoser, statuses).values():
        if match.agreement is Agreement.AGREED:
            assert match.rule_id not in _reached_by(disputed, good)
            rule = next(r for r in good if r.id == match.rule_id)
            assert match.evidence is Truth.of(Oracle(good, facts).evidence(rule))


@settings(deadline=None)
@given(programs(st.sampled_from(LEAVES[:3])), LIVES, st.integers(0, 4), st.integers(0, 9))
@pytest.mark.exhaustive
def test_lie_at_any_moment_reaches_nothing_that_is_agreed(
    rules: list[RuleVersion], life: list[Step], lie: int, begins: int
) -> None:
    second, node = Second(), Life()
    diagnoser = diagnoser_with(second)
    refused = diagnoser.load(rules).rejected
    good = [r for r in rules if r.id not in refused]
    for n, step in enumerate(life):
        if n == begins and lie < len(good):
            second.lie = lambda question: second.about(lie, question)
        facts = node.take(step)
        oracle = Oracle(good, facts, node.now)
        found = {m.rule_id: m for m in diagnoser.diagnose([facts], node.now)[0].matches}
        for rule in good:
            if found[rule.id].agreement is Agreement.AGREED:
                assert found[rule.id].evidence is Truth.of(oracle.evidence(rule))
        if second.lie is not None and oracle.evidence(good[lie]):
            told = found[good[lie].id].agreement
            infers = good[lie].remedier.spec.infer is not None
            assert infers or told in (Agreement.DISPUTED, Agreement.TAINTED)


def _reached_by(id_: str, rules: Sequence[RuleVersion]) -> set[str]:
    """The rule and all that read, directly or not, what it infers."""
    reached = {id_}
    while True:
        facts = {
            r.remedier.spec.infer.fact
            for r in rules
            if r.id in reached and r.remedier.spec.infer is not None
        }
        more = {
            r.id
            for r in rules
            for root in (r.remedier.spec.when, r.remedier.spec.unless)
            if root is not None
            for leaf in root.leaves()
            if getattr(leaf, "name", None) in facts
        }
        if more <= reached:
            return reached
        reached |= more


def test_disputed_rule_stays_quarantined_until_its_version_changes() -> None:
    second = liar(0)
    diagnoser = diagnoser_with(second)
    diagnoser.load([a_rule("a@1"), a_rule("b@1")])
    node = a_node(a_condition())
    assert diagnoser.diagnose([node], T0)[0].matches[0].agreement is Agreement.DISPUTED
    second.lie = None
    assert diagnoser.diagnose([node], T0)[0].matches[0].agreement is Agreement.DISPUTED
    assert set(diagnoser.load([a_rule("a@1"), a_rule("b@1")]).quarantined) == {"a@1"}
    assert not diagnoser.load([a_rule("a@2"), a_rule("b@1")]).quarantined
    assert diagnoser.diagnose([node], T0)[0].matches[0].agreement is Agreement.AGREED


def test_without_the_second_engine_everything_is_unchecked_and_says_why() -> None:
    diagnoser = diagnoser_with(Silent())
    diagnoser.load([a_rule("a")])
    match = diagnoser.diagnose([a_node(a_condition())], T0)[0].matches[0]
    assert (match.evidence, match.agreement) == (Truth.TRUE, Agreement.UNCHECKED)
    assert diagnoser.check.trouble == "it hangs"
    assert diagnoser.check.stats.unchecked == 1


def test_choice_is_by_priority_then_true_leaves_then_name() -> None:
    two = {"all": [{"condition": {"type": "Fault"}}, {"condition": {"type": "More"}}]}
    rules = [
        a_rule("weak", priority=100, when=two),
        a_rule("b"),
        a_rule("a"),
        a_rule("specific", when=two),
        a_rule("strong", priority=900),
    ]
    random.Random(1).shuffle(rules)
    diagnoser = Diagnoser()
    diagnoser.load(rules)
    node = a_node(a_condition(), a_condition("More"))
    found = diagnoser.diagnose([node], T0)[0].matches
    assert [m.rule_id for m in found] == ["strong", "specific", "a", "b", "weak"]


def test_rule_speaks_only_of_nodes_that_it_selects() -> None:
    diagnoser = Diagnoser()
    diagnoser.load([a_rule("gpu", nodes={"selector": {"matchLabels": {"pool": "gpu"}}})])
    assert not diagnoser.diagnose([a_node(a_condition())], T0)[0].matches
    chosen = a_node(a_condition(), labels={"pool": "gpu"})
    assert diagnoser.diagnose([chosen], T0)[0].matches


def test_quiet_nodes_cost_no_question_and_matching_ones_always_do() -> None:
    second = Second()
    diagnoser = diagnoser_with(second)
    diagnoser.load([a_rule("a")])
    well, ill = a_node(a_condition(status="False")), a_node(a_condition())
    for _ in range(3):
        diagnoser.diagnose([well], T0)
    for _ in range(3):
        diagnoser.diagnose([ill], T0)
    assert len(second.asked) == 1 + 3


def test_quarantine_reaches_those_who_read_what_the_rule_infers() -> None:
    second = liar(0)
    diagnoser = diagnoser_with(second)
    diagnoser.load(
        [
            a_rule("source", infer={"fact": "d.a"}),
            a_rule("middle", when={"fact": {"name": "d.a"}}, infer={"fact": "d.b"}),
            a_rule("reader", when={"fact": {"name": "d.b"}}),
            a_rule("apart"),
        ]
    )
    node = a_node(a_condition())

    def said() -> dict[str, Agreement]:
        return {m.rule_id: m.agreement for m in diagnoser.diagnose([node], T0)[0].matches}

    expected = {
        "source": Agreement.DISPUTED,
        "middle": Agreement.TAINTED,
        "reader": Agreement.TAINTED,
        "apart": Agreement.AGREED,
    }
    assert said() == expected
    second.lie = None  # it agrees again: that heals no quarantine
    assert said() == expected


def test_quarantine_reaches_what_was_remembered_before_it() -> None:
    diagnoser = diagnoser_with(Second())
    diagnoser.load([a_rule("a")])
    well = a_node(a_condition(status="False"))
    assert diagnoser.diagnose([well], T0)[0].matches[0].agreement is Agreement.AGREED
    diagnoser.check.quarantined["a"] = "the engines disagree about it"
    assert diagnoser.diagnose([well], T0)[0].matches[0].agreement is Agreement.DISPUTED


def test_unchecked_source_leaves_its_readers_unchecked() -> None:
    diagnoser = diagnoser_with(Silent())
    diagnoser.load(
        [a_rule("i", infer={"fact": "d.a"}), a_rule("r", when={"fact": {"name": "d.a"}})]
    )
    found = diagnoser.diagnose([a_node(a_condition())], T0)[0].matches
    assert {m.agreement for m in found} == {Agreement.UNCHECKED}


def test_derived_leaf_counts_as_a_true_leaf() -> None:
    diagnoser = Diagnoser()
    both = {"all": [{"condition": {"type": "Fault"}}, {"fact": {"name": "d.a"}}]}
    diagnoser.load([a_rule("i", infer={"fact": "d.a"}), a_rule("z", when=both), a_rule("b")])
    found = diagnoser.diagnose([a_node(a_condition())], T0)[0].matches
    assert [(m.rule_id, m.true_leaves) for m in found] == [("z", 2), ("b", 1), ("i", 1)]


def test_name_decides_before_its_generation() -> None:
    diagnoser = Diagnoser()
    ids = ["a-b@1", "a@10", "a@9"]
    diagnoser.load([a_rule(id_) for id_ in ids])
    found = diagnoser.diagnose([a_node(a_condition())], T0)[0].matches
    assert [m.rule_id for m in found] == ["a@9", "a@10", "a-b@1"]
