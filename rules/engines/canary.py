"""Questions that show whether a loaded program is the one that was meant.

For each root: a vector that satisfies a disjunct and nothing more, the same with each literal left
unknown or turned round; for each ruleset all true, all false, and some at random from a fixed seed.
An engine that lost a term, or took one for another, answers one of them wrongly. A question is
about one ruleset, so that a program of twice the size takes twice the time.
"""

import random
from collections.abc import Iterable, Iterator

from rules.engines.port import FALSE, TRUE, UNKNOWN, EngineQuestion, Outputs, Vector
from rules.engines.program_index import Packed
from rules.engines.reference import outputs
from rules.program import CompiledRule, Disjunct, RuleProgram

RANDOM_VECTORS = 8

Case = tuple[EngineQuestion, Outputs]


def canaries(program: RuleProgram, packed: Packed) -> Iterator[Case]:
    """Each with what the reference says, as far as the engine is asked.

    They cover every term of every rule, however many that makes.
    """
    for stratum, rules in enumerate(program.strata):
        done: set[frozenset[int]] = set()
        for rule in rules:
            group = packed.neighbours(rule)
            members = [program.rules[number] for number in sorted(group)]
            vectors = list(_around_all(rule, program.width))
            if group not in done:
                done.add(group)
                vectors += _general(members, program.width)
            given = frozenset(name for member in members for name in member.given)
            for vector in dict.fromkeys(vectors):
                yield EngineQuestion(stratum, vector, group), outputs(members, vector) & given


def _general(rules: Iterable[CompiledRule], width: int) -> Iterator[Vector]:
    yield bytes([TRUE]) * width
    yield bytes([FALSE]) * width
    slots = sorted({slot for rule in rules for slot in rule.slots})
    dice = random.Random(len(slots))
    for _ in range(RANDOM_VECTORS):
        vector = bytearray([UNKNOWN]) * width
        for slot in slots:
            vector[slot] = dice.choice((FALSE, UNKNOWN, TRUE))
        yield bytes(vector)


def _around_all(rule: CompiledRule, width: int) -> Iterator[Vector]:
    for alternatives in rule.given.values():
        for disjunct in alternatives:
            yield from _around(disjunct, width)


def _around(disjunct: Disjunct, width: int) -> Iterator[Vector]:
    exact = bytearray([UNKNOWN]) * width
    for slot, known in disjunct:
        exact[slot] = TRUE if known else FALSE
    yield bytes(exact)
    for slot, known in disjunct:
        for other in (UNKNOWN, FALSE if known else TRUE):
            near = exact.copy()
            near[slot] = other
            yield bytes(near)
