"""What happens to a rule about which the engines disagree."""

from typing import Any

from support.clock import T0
from support.rules_builders import a_condition, a_node, a_rule
from support.rules_engines import Second, diagnoser_with

from rules.diagnose import Agreement, Diagnoser
from rules.engines.crosscheck import SEVERAL
from rules.truth import Truth

ILL = a_node(a_condition())
DERIVED: dict[str, Any] = {"fact": {"name": "d.near"}}


def liar(*numbers: int) -> Second:
    second = Second()
    second.lie = lambda question: frozenset().union(*(second.about(n, question) for n in numbers))
    return second


def agreements(diagnoser: Diagnoser) -> dict[str, Agreement]:
    return {m.rule_id: m.agreement for m in diagnoser.diagnose([ILL], T0)[0].matches}


def test_dispute_is_recorded_with_the_fact_and_what_each_engine_said() -> None:
    diagnoser = diagnoser_with(liar(0))
    two = {"all": [{"condition": {"type": "Fault"}}, {"not": {"annotation": {"key": "k"}}}]}
    diagnoser.load([a_rule("a@1", when=two), a_rule("b@1")])
    assert agreements(diagnoser) == {"a@1": Agreement.DISPUTED, "b@1": Agreement.AGREED}
    (seen,) = diagnoser.check.disputes.values()
    assert (seen.rule_id, seen.at) == ("a@1", T0)
    assert seen.fact == ("condition Fault=True: true", "annotation k exists: false")
    assert (seen.reference, seen.second) == (("r0ep",), ())
    assert seen.fact_hash in diagnoser.check.quarantined["a@1"]


def test_same_question_has_the_same_hash_and_another_has_not() -> None:
    hashes = []
    for status in ("True", "True", "False"):
        diagnoser = diagnoser_with(liar(0))
        diagnoser.load([a_rule("a@1")])
        diagnoser.diagnose([a_node(a_condition(status=status))], T0)
        hashes.append(diagnoser.check.disputes["a@1"].fact_hash)
    assert hashes[0] == hashes[1] != hashes[2]


def test_quarantined_rule_is_not_asked_again_and_ends_no_more_children() -> None:
    second = liar(0)
    diagnoser = diagnoser_with(second)
    diagnoser.load([a_rule("a@1"), a_rule("b@1")])
    for _ in range(3):
        assert agreements(diagnoser)["a@1"] is Agreement.DISPUTED
    assert second.replaced == diagnoser.check.stats.disagreements == 1


def test_person_releases_a_quarantine_and_it_is_compared_again() -> None:
    second = liar(0)
    diagnoser = diagnoser_with(second)
    diagnoser.load([a_rule("a@1")])
    assert agreements(diagnoser) == {"a@1": Agreement.DISPUTED}
    second.lie = None
    assert diagnoser.check.release("a@1") and not diagnoser.check.release("a@1")
    assert agreements(diagnoser) == {"a@1": Agreement.AGREED}
    assert not diagnoser.check.disputes


def test_release_of_a_rule_that_still_differs_quarantines_it_again() -> None:
    diagnoser = diagnoser_with(liar(0))
    diagnoser.load([a_rule("a@1")])
    agreements(diagnoser)
    diagnoser.check.release("a@1")
    assert agreements(diagnoser) == {"a@1": Agreement.DISPUTED}
    assert diagnoser.check.stats.disagreements == 2


def test_new_generation_starts_without_the_quarantine() -> None:
    second = liar(0)
    diagnoser = diagnoser_with(second)
    diagnoser.load([a_rule("a@1")])
    agreements(diagnoser)
    second.lie = None
    assert not diagnoser.load([a_rule("a@2")]).quarantined
    assert not diagnoser.check.disputes
    assert agreements(diagnoser) == {"a@2": Agreement.AGREED}


def test_child_that_erred_alone_is_replaced_and_its_rule_goes_free() -> None:
    second = liar(0)
    diagnoser = diagnoser_with(second)
    diagnoser.load([a_rule("a@1")])

    def replaced(reason: str) -> None:
        second.lie = None

    second.replace = replaced  # type: ignore[method-assign]
    assert agreements(diagnoser) == {"a@1": Agreement.AGREED}
    assert (diagnoser.check.stats.disagreements, diagnoser.check.stats.corrupted) == (1, 1)
    assert not diagnoser.check.quarantined


def test_engine_that_differs_about_several_rules_counts_as_down() -> None:
    second = liar(*range(SEVERAL))
    diagnoser = diagnoser_with(second)
    diagnoser.load([a_rule(f"r{n}") for n in range(SEVERAL + 1)])
    assert set(agreements(diagnoser).values()) == {Agreement.UNCHECKED}
    assert not diagnoser.check.quarantined
    assert f"{SEVERAL} rules at once" in diagnoser.check.trouble
    second.lie = None
    assert set(agreements(diagnoser).values()) == {Agreement.AGREED}
    assert diagnoser.check.trouble == ""


def test_match_is_asked_with_all_that_it_rests_on_every_time() -> None:
    second = Second()
    diagnoser = diagnoser_with(second)
    source = a_rule("source", infer={"fact": "d.near"})
    diagnoser.load([source, a_rule("reader", when=DERIVED), a_rule("other", when={"not": DERIVED})])
    agreements(diagnoser)
    for _ in range(2):
        second.asked.clear()
        agreements(diagnoser)
        assert {n for question in second.asked for n in question.rules or ()} == {0, 1}


def test_lie_about_what_a_match_rests_on_is_found_though_it_was_true_before() -> None:
    second = Second()
    diagnoser = diagnoser_with(second)
    diagnoser.load([a_rule("source", infer={"fact": "d.near"}), a_rule("reader", when=DERIVED)])
    assert set(agreements(diagnoser).values()) == {Agreement.AGREED}
    second.lie = lambda question: second.about(0, question)
    assert agreements(diagnoser) == {"source": Agreement.DISPUTED, "reader": Agreement.TAINTED}


def test_what_was_unchecked_is_checked_as_soon_as_the_engine_is_back() -> None:
    class Away(Second):
        away = True

        def matches(self, questions: Any) -> Any:
            if self.away:
                from rules.engines.port import EngineError

                raise EngineError("died", "it is gone")
            return super().matches(questions)

        def revived(self) -> bool:
            return not self.away

    second = Away()
    diagnoser = diagnoser_with(second)
    diagnoser.load([a_rule("a"), a_rule("b", when={"condition": {"type": "None"}})])
    assert set(agreements(diagnoser).values()) == {Agreement.UNCHECKED}
    assert diagnoser.check.trouble == "it is gone"
    second.away = False
    assert set(agreements(diagnoser).values()) == {Agreement.AGREED}
    assert diagnoser.check.trouble == ""


def test_alarm_ends_when_the_engine_is_back_though_nothing_is_asked() -> None:
    second = Second()
    diagnoser = diagnoser_with(second)
    diagnoser.load([a_rule("a")])
    well = a_node(a_condition(status="False"))
    assert diagnoser.diagnose([well], T0)[0].matches[0].evidence is Truth.FALSE
    diagnoser.check._down, diagnoser.check.trouble = True, "it is gone"
    diagnoser.diagnose([well], T0)
    assert diagnoser.check.trouble == ""
