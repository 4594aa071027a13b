"""Vectors that show whether a loaded program is the one that was meant.

For each root: a vector that satisfies a disjunct and nothing more, the same with each literal left
unknown or turned round, all true, all false, and some at random from a fixed seed. An engine that
lost a term, or took one for another, answers one of them wrongly.
"""

import random
from collections.abc import Iterator, Sequence

from rules.engines.port import Outputs, Vector
from rules.engines.reference import outputs
from rules.program import CompiledRule, Disjunct
from rules.truth import Truth

RANDOM_VECTORS = 8

Case = tuple[Vector, Outputs]


def canaries(rules: Sequence[CompiledRule], width: int) -> list[Case]:
    """Vectors for one stratum with what the reference says of them, as far as the engine is asked.

    They cover every term of every rule, however many that makes.
    """
    asked = frozenset(name for rule in rules for name in rule.given)
    vectors = dict.fromkeys(_vectors(rules, width))
    return [(vector, outputs(rules, vector) & asked) for vector in vectors]


def _vectors(rules: Sequence[CompiledRule], width: int) -> Iterator[Vector]:
    if not rules:
        return
    yield (Truth.TRUE,) * width
    yield (Truth.FALSE,) * width
    dice = random.Random(width)
    for _ in range(RANDOM_VECTORS):
        yield tuple(dice.choice(list(Truth)) for _ in range(width))
    for rule in rules:
        for alternatives in rule.given.values():
            for disjunct in alternatives:
                yield from _around(disjunct, width)


def _around(disjunct: Disjunct, width: int) -> Iterator[Vector]:
    exact = [Truth.UNKNOWN] * width
    for slot, known in disjunct:
        exact[slot] = Truth.of(known)
    yield tuple(exact)
    for slot, known in disjunct:
        for other in (Truth.UNKNOWN, Truth.of(not known)):
            near = exact.copy()
            near[slot] = other
            yield tuple(near)
