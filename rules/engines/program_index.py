"""A program as rulesets of the second engine, and which rulesets answer a question."""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

from rules.engines.port import EngineQuestion, Outputs
from rules.engines.ruleset import Term, rulesets
from rules.engines.talk import EngineQuery
from rules.program import CompiledRule, RuleProgram

_LETTERS = "fut"
"""Letter by the byte of a vector."""
_TEXT = bytes.maketrans(bytes(range(3)), _LETTERS.encode())


class Packed:
    """A program as rulesets. Each ruleset has rules of one stratum only.

    rulesets: to be loaded, in this order
    """

    def __init__(self, program: RuleProgram) -> None:
        self.rulesets: list[dict[str, Any]] = []
        self._sets: dict[int, tuple[int, ...]] = {}
        """Number of a rule to the rulesets that have its terms."""
        self._names = {rule.number: frozenset(rule.given) for rule in program.rules}
        self._strata = [frozenset(rule.number for rule in stratum) for stratum in program.strata]
        for stratum in program.strata:
            made, places = rulesets([terms(rule) for rule in stratum])
            first = len(self.rulesets)
            self.rulesets += made
            for rule, where in zip(stratum, places, strict=True):
                self._sets[rule.number] = tuple(first + number for number in where)
        self._project = [_projection(made["slots"]) for made in self.rulesets]
        self._rules = _by_ruleset(self._sets, len(self.rulesets))

    def build_queries(self, question: EngineQuestion) -> list[EngineQuery]:
        """Return the child's queries for `question`."""
        text = question.vector.translate(_TEXT).decode("ascii")
        sets = {number for rule in self._numbers(question) for number in self._sets[rule]}
        return [(number, self._project[number](text)) for number in sets]

    def outputs(self, question: EngineQuestion, fired: Iterable[Outputs]) -> Outputs:
        """Return the outputs of the question's rules, of those that `fired`."""
        names = frozenset().union(*fired)
        if not names:
            return names
        return names & frozenset().union(*(self._names[n] for n in self._numbers(question)))

    def neighbours(self, rule: CompiledRule) -> frozenset[int]:
        """Return the numbers of the rules that share a ruleset with this one, including its own."""
        return frozenset().union(*(self._rules[number] for number in self._sets[rule.number]))

    def _numbers(self, question: EngineQuestion) -> frozenset[int]:
        return self._strata[question.stratum] if question.rules is None else question.rules


def terms(rule: CompiledRule) -> list[Term]:
    return [
        (f"{name}#{n}", sorted(disjunct))
        for name, alternatives in rule.given.items()
        for n, disjunct in enumerate(alternatives)
    ]


def _by_ruleset(sets: dict[int, tuple[int, ...]], count: int) -> list[frozenset[int]]:
    rules: list[set[int]] = [set() for _ in range(count)]
    for rule, numbers in sets.items():
        for number in numbers:
            rules[number].add(rule)
    return [frozenset(numbers) for numbers in rules]


def _projection(slots: Sequence[int]) -> Callable[[str], str]:
    """Return a function that picks the letters of these slots, in order."""
    if len(slots) == 1:
        (only,) = slots
        return lambda text: text[only]
    pick = itemgetter(*slots)
    return lambda text: "".join(pick(text))
