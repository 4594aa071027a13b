"""Questions that show whether an engine loaded a program correctly.

For each root there is a vector that satisfies one disjunct and nothing more, and the same with each
literal unknown or inverted. For each ruleset there are vectors that are all true, all false, or
random with a fixed seed. An engine that lost or confused a term answers one of them wrongly. A
question is about one ruleset, so that the time grows linearly with the program.
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
    """Return questions with the reference's answers, for outputs that the engine knows.

    They cover every term of every rule.
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
