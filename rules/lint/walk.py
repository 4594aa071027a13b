"""Walks the leaves of an expression, with their paths and whether they are negated."""

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic.alias_generators import to_camel

from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.leaves import LEAVES, AbsentLeaf, Leaf

AnyLeaf = Leaf | AbsentLeaf


@dataclass(frozen=True, slots=True)
class LeafPlace:
    """A leaf, without the `absent` around it.

    path: of the leaf's own fields, such as `spec.when.all[0].condition`
    negated: the number of `not` and `absent` around it is odd
    alone: no other leaf must be true besides it: it is the only one, or in alternatives only
    """

    path: str
    leaf: Leaf
    negated: bool
    alone: bool


def places(expression: Expression, path: str) -> Iterator[LeafPlace]:
    yield from _places(expression, path, False, True)


def _places(expression: Expression, path: str, negated: bool, alone: bool) -> Iterator[LeafPlace]:
    if (leaf := expression.leaf) is not None:
        where = f"{path}.{field_of(expression)}"
        if isinstance(leaf, AbsentLeaf):
            yield LeafPlace(f"{where}.{field_of(leaf)}", leaf.leaf, not negated, alone)
        else:
            yield LeafPlace(where, leaf, negated, alone)
        return
    for member, below in members(expression, path):
        under = negated != (expression.not_ is not None)
        together = expression.all is not None and len(expression.members) > 1
        yield from _places(member, below, under, alone and not together)


def members(expression: Expression, path: str) -> Iterator[tuple[Expression, str]]:
    """Yield the members of a combinator, each with its path."""
    if expression.not_ is not None:
        yield expression.not_, f"{path}.not"
        return
    op = "all" if expression.all is not None else "any"
    for number, member in enumerate(expression.members):
        yield member, f"{path}.{op}[{number}]"


def field_of(owner: Expression | AbsentLeaf) -> str:
    """Return the key under which a leaf is written: `condition`, `hostEvent`, ..."""
    names = (*LEAVES, "absent") if isinstance(owner, Expression) else LEAVES
    return to_camel(next(name for name in names if getattr(owner, name) is not None))
