"""Whether a fault is proven gone: not merely unseen, but reported as over since the repair. Pure.

The evidence is read again with two differences. A condition counts as it is now, however short:
a fault that came back a second ago is there, although no rule would match it yet. And a report
from before the repair proves nothing, so what it says is unknown.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.leaves import AbsentLeaf, ConditionLeaf, Leaf
from rules.atoms import read
from rules.facts import FactSet
from rules.held import SETTLE
from rules.readiness import READY, about_readiness
from rules.truth import Truth

ReadLeaf = Callable[[Leaf | AbsentLeaf], Truth]


@dataclass(frozen=True, slots=True)
class Since:
    """From when on reports count: any of them after the act, and one that says that all is well
    only once host and detector have settled. A condition that became well while the act was under
    way says so of itself: its next heartbeat may be minutes away.

    began, acted  begin and end of the last act
    settled       None: the host was not booted
    settle        for so long after its start a detector finds nothing, whatever it reports
    """

    began: datetime
    acted: datetime
    settled: datetime | None = None
    settle: timedelta = timedelta(0)


def gone(
    when: Expression, cleared: Expression | None, facts: FactSet, now: datetime, since: Since
) -> Truth:
    """TRUE: known to be over by reports that count. FALSE: known to be there.

    cleared  proof of another kind, in place of the evidence known false

    Of evidence about readiness the node must be Ready beside that: evidence for a silent kubelet is
    false as soon as it says that the node is not ready.
    """

    def read_leaf(leaf: Leaf | AbsentLeaf, well: Truth) -> Truth:
        return fresh(leaf, facts, now, since, well)

    if cleared is not None:
        over = _fold(cleared, Truth.TRUE, read_leaf)
    else:
        over = ~_fold(when, Truth.FALSE, read_leaf)
    return over & read_leaf(READY, Truth.TRUE) if about_readiness(when) else over


def settled(when: Expression, facts: FactSet, now: datetime) -> bool:
    """Whether no condition of the evidence is merely what its detector reports when it starts."""
    conditions = (leaf.type for leaf in when.leaves() if isinstance(leaf, ConditionLeaf))
    known = (facts.conditions.get(type_) for type_ in conditions)
    return not any(c is not None and c.settles is not None and now < c.settles for c in known)


def back(when: Expression, facts: FactSet, now: datetime) -> bool:
    """Whether the evidence is there, or unknown, if conditions count as they are, however short."""

    def read_leaf(leaf: Leaf | AbsentLeaf) -> Truth:
        return read(_at_once(leaf) if isinstance(leaf, ConditionLeaf) else leaf, facts, now).truth

    return fold(when, read_leaf) is not Truth.FALSE


def _at_once(leaf: ConditionLeaf) -> ConditionLeaf:
    return leaf.model_copy(update={"for_": timedelta(0)})


def fold(expression: Expression, read_leaf: ReadLeaf) -> Truth:
    """Three-valued: an unknown member leaves open what it would decide."""
    return _fold(expression, Truth.TRUE, lambda leaf, well: read_leaf(leaf))


def _fold(
    expression: Expression, well: Truth, read_leaf: Callable[[Leaf | AbsentLeaf, Truth], Truth]
) -> Truth:
    """`well` is what the expression says of a node that is well; under `not` it is the other."""
    if (leaf := expression.leaf) is not None:
        return read_leaf(leaf, well)
    if expression.not_ is not None:
        return ~_fold(expression.not_, ~well, read_leaf)
    members = [_fold(member, well, read_leaf) for member in expression.members]
    result = members[0]
    for member in members[1:]:
        result = result & member if expression.all is not None else result | member
    return result


def fresh(
    leaf: Leaf | AbsentLeaf, facts: FactSet, now: datetime, since: Since, well: Truth
) -> Truth:
    """What the leaf says; `well` is what it says of a node that is well."""
    if not isinstance(leaf, ConditionLeaf):
        return read(leaf, facts, now).truth
    at_once = _at_once(leaf)
    settled = _settled(facts, leaf, since.settle)
    reading = read(at_once, _settling(facts, leaf, settled), now)
    reported = reading.observed_at
    after = since.acted
    if reading.truth is well:
        turned = facts.conditions[leaf.type].since >= _whole(since.began)
        after = since.began if turned else since.acted
        after = max(after, since.settled or after, settled or after)
    if reported is None or reported < _whole(after):
        return Truth.UNKNOWN
    return reading.truth


def _whole(at: datetime) -> datetime:
    """Detectors write whole seconds: a report of the same second may be from after it."""
    return at.replace(microsecond=0)


def _settling(facts: FactSet, leaf: ConditionLeaf, settled: datetime | None) -> FactSet:
    """The facts, with a detector that settles as soon, or as late, as the rule says."""
    if settled is None:
        return facts
    fact = replace(facts.conditions[leaf.type], settles=settled)
    return replace(facts, conditions={**facts.conditions, leaf.type: fact})


def _settled(facts: FactSet, leaf: ConditionLeaf, settle: timedelta) -> datetime | None:
    """When its detector, which has started lately, finds something; None: it has not."""
    fact = facts.conditions.get(leaf.type)
    if fact is None or fact.settles is None:
        return None
    return fact.settles - SETTLE + settle


def in_the_way(unless: Expression | None, guards: Truth, facts: FactSet, now: datetime) -> str:
    """Which guard stands in the way; a leaf under `not` is named as it was read."""
    if guards is Truth.FALSE or unless is None:
        return ""
    readings = [read(leaf, facts, now) for leaf in unless.leaves()]
    named = [r.evidence for r in readings if r.truth is guards] or [r.evidence for r in readings]
    state = "true" if guards is Truth.TRUE else "unknown"
    return f"the guards are {state}: {'; '.join(named[:3])}"
