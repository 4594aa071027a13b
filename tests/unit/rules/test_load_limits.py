"""A program that the second engine does not take as a whole: what is left, and who is blamed."""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.clock import T0
from support.rules_builders import a_condition, a_node, a_rule

from rules.diagnose import Agreement, Diagnoser, LoadReport
from rules.engines.crosscheck import CrossCheck
from rules.engines.durable import REFUSALS, DurableEngine
from rules.engines.port import EngineError, EngineQuestion, Outputs
from rules.engines.reference import ReferenceEngine
from rules.load_limits import Sieve
from rules.program import RuleProgram, RuleVersion, compile_program

Refuses = Callable[[set[str]], bool]


class Choosy:
    """An engine that refuses some programs, told by the names of their rules."""

    def __init__(self, refuses: Refuses) -> None:
        self._refuses = refuses
        self.loads = 0

    def load(self, program: RuleProgram) -> None:
        self.loads += 1
        if self._refuses({rule.id for rule in program.rules}):
            raise EngineError("fatal", "it does not survive")

    def matches(self, questions: Sequence[EngineQuestion]) -> list[Outputs]:
        raise AssertionError("nobody asks a trial")

    def close(self) -> None:
        pass


def sifted(rules: list[RuleVersion], refuses: Refuses) -> tuple[set[str], set[str]]:
    sieve = Sieve(Choosy(refuses), compile_program(rules), REFUSALS)
    left = sieve.sift()
    return {rule.id for rule in left.rules}, set(sieve.refused)


def reads(name: str) -> dict[str, Any]:
    return {"fact": {"name": name}}


def test_only_the_poisonous_rule_is_refused() -> None:
    rules = [a_rule(f"r{n}") for n in range(9)]
    left, refused = sifted(rules, lambda ids: "r4" in ids)
    assert (len(left), refused) == (8, {"r4"})


def test_rules_that_fail_only_together_cost_the_later_one() -> None:
    rules = [a_rule(n) for n in "abcd"]
    assert sifted(rules, lambda ids: {"a", "d"} <= ids) == ({"a", "b", "c"}, {"d"})


def test_reader_is_tried_with_what_it_reads_wherever_it_stands() -> None:
    rules = [
        a_rule("reader", when=reads("d.a")),
        a_rule("poison"),
        a_rule("j"),
        a_rule("i", infer={"fact": "d.a"}),
    ]
    assert sifted(rules, lambda ids: "poison" in ids) == ({"reader", "i", "j"}, {"poison"})


def test_readers_go_with_a_refused_source() -> None:
    rules = [
        a_rule("i", infer={"fact": "d.a"}),
        a_rule("other", infer={"fact": "d.a"}),
        a_rule("reader", when={"not": reads("d.a")}),
        a_rule("good"),
    ]
    assert sifted(rules, lambda ids: "i" in ids) == ({"other", "good"}, {"i", "reader"})


@settings(deadline=None)
@given(
    st.integers(1, 12),
    st.lists(st.sets(st.integers(0, 11), min_size=1, max_size=2), max_size=4),
)
def test_what_is_left_is_taken_and_nothing_more_could_be(count: int, bad: list[set[int]]) -> None:
    rules = [a_rule(f"r{n}") for n in range(count)]
    poison = [{f"r{n}" for n in group} for group in bad]

    def refuses(ids: set[str]) -> bool:
        return any(group <= ids for group in poison)

    left, refused = sifted(rules, refuses)
    assert left | refused == {rule.id for rule in rules}
    assert not refuses(left)
    assert all(refuses(left | {one}) for one in refused)


class Flaky(DurableEngine):
    """Refuses whatever it is given, but a trial of the same kind cannot even start."""

    def __init__(self) -> None:
        def spawn() -> Any:
            raise OSError("no more processes")

        super().__init__(spawn, lambda: 0.0)
        self._reference = ReferenceEngine()

    def load(self, program: RuleProgram) -> None:
        raise EngineError("refused", "not today")

    def revived(self) -> bool:
        return False


def load_flaky() -> tuple[Diagnoser, LoadReport]:
    diagnoser = Diagnoser()
    diagnoser.check = CrossCheck(Flaky())
    return diagnoser, diagnoser.load([a_rule("a"), a_rule("b")])


def test_load_never_raises_and_blames_no_rule_for_an_engine_that_is_down() -> None:
    diagnoser, report = load_flaky()
    assert not report.rejected
    assert "not today" in diagnoser.check.trouble
    found = diagnoser.diagnose([a_node(a_condition())], T0)[0].matches
    assert {match.agreement for match in found} == {Agreement.UNCHECKED}
