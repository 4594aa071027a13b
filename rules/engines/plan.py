"""Index of a program for its evaluations, built once at load."""

from collections.abc import Callable, Iterable
from operator import itemgetter

from rules.hypotheses import probes_of
from rules.program import CompiledRule, RuleProgram, slots_of


class EvaluationPlan:
    """Index of a program.

    readers: slot to the numbers of the rules that read it
    inferring: slot to the numbers of the rules that infer it
    strata: numbers of the rules of each stratum
    acting: rules on which an act may depend: with a ladder, or with a stored fact
    upstream: number of a rule to the rules that infer, directly or not, what it reads
    project: number of a rule to a function that picks all slots of a vector that its outputs need
    """

    def __init__(self, program: RuleProgram) -> None:
        self.program = program
        self.atoms = len(program.atoms)
        self.rules = program.rules
        self.strata = [frozenset(r.number for r in stratum) for stratum in program.strata]
        self.readers: list[tuple[int, ...]] = _by_slot(
            program.width, ((slot, rule) for rule in program.rules for slot in rule.slots)
        )
        self.inferring: list[tuple[int, ...]] = _by_slot(
            program.width, ((slot, rule) for rule in program.rules for slot in rule.infers)
        )
        self.acting = frozenset(rule.number for rule in program.rules if not rule.infers)
        self.upstream = self._upstream()
        self.project: list[Callable[[bytes], object]] = [
            itemgetter(*rule.slots) for rule in program.rules
        ]
        self.evidence_slots = [frozenset(slots_of(rule.evidence)) for rule in program.rules]
        self.probes = probes_of(program)

    def of(self, ids: Iterable[str]) -> frozenset[int]:
        wanted = set(ids)
        return frozenset(rule.number for rule in self.rules if rule.id in wanted)

    def _upstream(self) -> list[frozenset[int]]:
        upstream: list[frozenset[int]] = [frozenset()] * len(self.rules)
        for stratum in self.program.strata:
            for rule in stratum:
                direct = {number for slot in rule.reads for number in self.inferring[slot]}
                upstream[rule.number] = frozenset(direct).union(*(upstream[n] for n in direct))
        return upstream


def _by_slot(width: int, pairs: Iterable[tuple[int, CompiledRule]]) -> list[tuple[int, ...]]:
    by_slot: list[list[int]] = [[] for _ in range(width)]
    for slot, rule in pairs:
        by_slot[slot].append(rule.number)
    return [tuple(numbers) for numbers in by_slot]
