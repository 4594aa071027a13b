"""The reference engine: evaluates the rules' trees in three-valued logic, in plain Python."""

from collections.abc import Iterable, Sequence

from rules.engines.port import FALSE, TRUE, UNKNOWN, EngineQuestion, Outputs, Vector
from rules.program import CompiledRule, Root, RuleProgram, VectorSlot


class ReferenceEngine:
    def __init__(self) -> None:
        self._program = RuleProgram()

    def load(self, program: RuleProgram) -> None:
        self._program = program

    def matches(self, questions: Sequence[EngineQuestion]) -> list[Outputs]:
        return [outputs(self._select_rules(question), question.vector) for question in questions]

    def close(self) -> None:
        pass

    def _select_rules(self, question: EngineQuestion) -> Iterable[CompiledRule]:
        if question.rules is None:
            return self._program.strata[question.stratum]
        return [self._program.rules[number] for number in question.rules]


def outputs(rules: Iterable[CompiledRule], vector: Vector) -> Outputs:
    fired = []
    for rule in rules:
        for name, root in rule.roots():
            known = evaluate(root, vector)
            if known != UNKNOWN:
                fired.append(rule.output(name, known == TRUE))
    return frozenset(fired)


def evaluate(root: Root, vector: Vector) -> int:
    """Return the truth as a byte of a vector: the least member for all, the greatest for any."""
    if isinstance(root, VectorSlot):
        return vector[root.index]
    members = [evaluate(member, vector) for member in root.members]
    match root.op:
        case "all":
            return min(members, default=TRUE)
        case "any":
            return max(members, default=FALSE)
        case _:
            return TRUE - members[0]
