"""Whether a fault is proven gone: not merely unseen, but reported as over since the repair. Pure.

The evidence is read again with two differences. A condition counts as it is now, however short:
a fault that came back a second ago is there, although no rule would match it yet. And a report
from before the repair proves nothing, so what it says is unknown.
"""

from collections.abc import Callable
from datetime import datetime

from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.leaves import AbsentLeaf, ConditionLeaf, Leaf
from rules.atoms import read
from rules.facts import FactSet
from rules.truth import Truth

ReadLeaf = Callable[[Leaf | AbsentLeaf], Truth]


def gone(
    when: Expression, cleared: Expression | None, facts: FactSet, now: datetime, since: datetime
) -> Truth:
    """TRUE: known to be over by reports made at or after `since`. FALSE: known to be there.

    cleared  proof of another kind, in place of the evidence known false
    """
    if cleared is not None:
        return fold(cleared, lambda leaf: fresh(leaf, facts, now, since))
    return ~fold(when, lambda leaf: fresh(leaf, facts, now, since))


def fold(expression: Expression, read_leaf: ReadLeaf) -> Truth:
    """Three-valued: an unknown member leaves open what it would decide."""
    if (leaf := expression.leaf) is not None:
        return read_leaf(leaf)
    members = [fold(member, read_leaf) for member in expression.members]
    if expression.not_ is not None:
        return ~members[0]
    result = members[0]
    for member in members[1:]:
        result = result & member if expression.all is not None else result | member
    return result


def fresh(leaf: Leaf | AbsentLeaf, facts: FactSet, now: datetime, since: datetime) -> Truth:
    if not isinstance(leaf, ConditionLeaf):
        return read(leaf, facts, now).truth
    at_once = leaf.model_copy(update={"for_": now - now})
    reading = read(at_once, facts, now)
    reported = reading.observed_at
    # Detectors write whole seconds: a report of the same second may be from after the repair.
    if reported is None or reported < since.replace(microsecond=0):
        return Truth.UNKNOWN
    return reading.truth
