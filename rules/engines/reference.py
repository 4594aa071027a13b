"""The specification: evaluates the rules' own trees, three-valued, in plain Python."""

from collections.abc import Sequence

from rules.engines.port import Outputs, Vector
from rules.program import CompiledRule, Program, Root, Slot
from rules.truth import Truth


class ReferenceEngine:
    def __init__(self) -> None:
        self._program = Program()

    def load(self, program: Program) -> None:
        self._program = program

    def matches(self, stratum: int, vectors: Sequence[Vector]) -> list[Outputs]:
        rules = self._program.strata[stratum]
        return [outputs(rules, vector) for vector in vectors]

    def close(self) -> None:
        pass


def outputs(rules: Sequence[CompiledRule], vector: Vector) -> Outputs:
    fired = []
    for rule in rules:
        for name, root in rule.roots():
            truth = evaluate(root, vector)
            if truth is not Truth.UNKNOWN:
                fired.append(rule.output(name, truth is Truth.TRUE))
    return frozenset(fired)


def evaluate(root: Root, vector: Vector) -> Truth:
    if isinstance(root, Slot):
        return vector[root.index]
    members = (evaluate(member, vector) for member in root.members)
    match root.op:
        case "all":
            return Truth.all(members)
        case "any":
            return Truth.any(members)
        case _:
            return ~next(iter(members))
