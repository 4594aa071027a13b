"""Trees of compiled rules, and their disjunctive form for the second engine. Pure.

An alternative is a set of literals. Each literal requires a slot of the vector to be known true or
known false; an unknown slot satisfies neither.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from rules.engines.ruleset import MOST_PROPERTIES
from rules.rule import CompileError

MOST_DISJUNCTS = 64
"""Bound for each root and polarity."""
MOST_LITERALS = MOST_PROPERTIES // 2
"""Bound for one alternative. A ruleset of durable_rules has a bound on properties, and each slot
takes two.
"""

Literal = tuple[int, bool]
"""A slot of the vector that must be known true (True) or known false (False)."""
Disjunct = frozenset[Literal]


@dataclass(frozen=True, slots=True)
class VectorSlot:
    """Leaf of a tree: an index of the vector."""

    index: int


@dataclass(frozen=True, slots=True)
class Tree:
    """all, any or not of members: the expression with numbered leaves."""

    op: str
    members: "tuple[Tree | VectorSlot, ...]"


Root = Tree | VectorSlot


def slots_of(root: Root) -> Iterable[int]:
    if isinstance(root, VectorSlot):
        yield root.index
        return
    for member in root.members:
        yield from slots_of(member)


@lru_cache(maxsize=1 << 16)
def output_name(number: int, root: str, known: bool) -> str:
    return f"r{number}{root}{'p' if known else 'n'}"


def disjuncts(root: Root, known: bool, rule: str = "", path: str = "") -> tuple[Disjunct, ...]:
    """Return the alternatives under which the root is known true, or known false.

    Raises CompileError if there are too many alternatives, or too many literals in one.
    """

    def expand(node: Root, known: bool) -> set[Disjunct]:
        if isinstance(node, VectorSlot):
            return {frozenset({(node.index, known)})}
        if node.op == "not":
            return expand(node.members[0], not known)
        members = [expand(member, known) for member in node.members]
        if (node.op == "all") == known:
            return _product(members, refused)
        return _bounded({d for member in members for d in member}, refused)

    def refused(why: str) -> CompileError:
        which = "" if known else " (counted for its being known false)"
        hint = "give a part of it a name with an `infer` rule"
        return CompileError(rule, path, f"it has more than {why} once expanded{which}: {hint}")

    return tuple(sorted(expand(root, known), key=sorted))


def _product(members: list[set[Disjunct]], error: Callable[[str], CompileError]) -> set[Disjunct]:
    """Combine one alternative of each member; drop contradictory combinations."""
    result: set[Disjunct] = {frozenset()}
    for member in members:
        joined = (a | b for a, b in product(result, member))
        result = {d for d in joined if not any((slot, not known) in d for slot, known in d)}
        _bounded(result, error)
    return result


def _bounded(alternatives: set[Disjunct], error: Callable[[str], CompileError]) -> set[Disjunct]:
    if len(alternatives) > MOST_DISJUNCTS:
        raise error(f"{MOST_DISJUNCTS} alternatives")
    if any(len(disjunct) > MOST_LITERALS for disjunct in alternatives):
        raise error(f"{MOST_LITERALS} leaves in one alternative")
    return alternatives
