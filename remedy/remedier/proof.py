"""Verifies that a fault is gone: reported as over since the repair, not merely no longer reported.
Pure.

The evidence is read again with two differences. A condition counts at once, without the rule's
`for`: a fault that returned a second ago is there, although no rule would match it yet. And a
report from before the repair proves nothing, so what it reports is unknown.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.leaves import AbsentLeaf, ConditionLeaf, Leaf
from rules.atoms import read
from rules.condition_clock import SETTLE
from rules.facts import FactSet
from rules.readiness import READY, about_readiness
from rules.truth import Truth

ReadLeaf = Callable[[Leaf | AbsentLeaf], Truth]


@dataclass(frozen=True, slots=True)
class Since:
    """From when on reports count: all reports after the act, and a report that says healthy only
    once host and detector have settled. A condition that became healthy during the act counts from
    the begin of the act, since its next heartbeat may be minutes away.

    began, acted: begin and end of the last act
    settled: when the host has settled after a boot; None: it was not booted
    settle: for this long after its start a detector finds nothing, whatever it reports
    """

    began: datetime
    acted: datetime
    settled: datetime | None = None
    settle: timedelta = timedelta(0)


def gone(
    when: Expression, cleared: Expression | None, facts: FactSet, now: datetime, since: Since
) -> Truth:
    """Return TRUE if the fault is known to be over by reports that count, FALSE if it is known to
    be there.

    cleared: proof by another expression, instead of evidence known false

    If the evidence is about readiness, the node must also be Ready: evidence for a silent kubelet
    is false as soon as the kubelet reports that the node is not ready.
    """

    def read_leaf(leaf: Leaf | AbsentLeaf, well: Truth) -> Truth:
        return fresh(leaf, facts, now, since, well)

    if cleared is not None:
        truth = _fold(cleared, Truth.TRUE, read_leaf)
    else:
        truth = ~_fold(when, Truth.FALSE, read_leaf)
    return truth & read_leaf(READY, Truth.TRUE) if about_readiness(when) else truth


def settled(when: Expression, facts: FactSet, now: datetime) -> bool:
    """Report whether no condition of the evidence may come from a detector that has
    just started.
    """
    conditions = (leaf.type for leaf in when.leaves() if isinstance(leaf, ConditionLeaf))
    known = (facts.conditions.get(type_) for type_ in conditions)
    return not any(c is not None and c.settles is not None and now < c.settles for c in known)


def back(when: Expression, facts: FactSet, now: datetime) -> bool:
    """Report whether the evidence is true or unknown if conditions count at once, without `for`."""

    def read_leaf(leaf: Leaf | AbsentLeaf) -> Truth:
        return read(_at_once(leaf) if isinstance(leaf, ConditionLeaf) else leaf, facts, now).truth

    return fold(when, read_leaf) is not Truth.FALSE


def _at_once(leaf: ConditionLeaf) -> ConditionLeaf:
    return leaf.model_copy(update={"for_": timedelta(0)})


def fold(expression: Expression, read_leaf: ReadLeaf) -> Truth:
    """Evaluate the expression in three-valued logic: an unknown member leaves open what it would
    decide.
    """
    return _fold(expression, Truth.TRUE, lambda leaf, well: read_leaf(leaf))


def _fold(
    expression: Expression, well: Truth, read_leaf: Callable[[Leaf | AbsentLeaf, Truth], Truth]
) -> Truth:
    """Evaluate the expression. `well` is its value on a healthy node; under `not` it is
    inverted.
    """
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
    """Return the truth of the leaf; `well` is its value on a healthy node."""
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
    """Return the whole second: detectors write whole seconds, so a report of the same second may be
    from after the act.
    """
    return at.replace(microsecond=0)


def _settling(facts: FactSet, leaf: ConditionLeaf, settled: datetime | None) -> FactSet:
    """Return the facts with the settling time of the leaf's detector set as the rule says."""
    if settled is None:
        return facts
    fact = replace(facts.conditions[leaf.type], settles=settled)
    return replace(facts, conditions={**facts.conditions, leaf.type: fact})


def _settled(facts: FactSet, leaf: ConditionLeaf, settle: timedelta) -> datetime | None:
    """Return when the leaf's detector, which started recently, has settled; None: it did not start
    recently.
    """
    fact = facts.conditions.get(leaf.type)
    if fact is None or fact.settles is None:
        return None
    return fact.settles - SETTLE + settle


def describe_guards(unless: Expression | None, guards: Truth, facts: FactSet, now: datetime) -> str:
    """Return which guards hold the job back, "" for none; a leaf under `not` is named as it was
    read.
    """
    if guards is Truth.FALSE or unless is None:
        return ""
    readings = [read(leaf, facts, now) for leaf in unless.leaves()]
    named = [r.evidence for r in readings if r.truth is guards] or [r.evidence for r in readings]
    state = "true" if guards is Truth.TRUE else "unknown"
    return f"the guards are {state}: {'; '.join(named[:3])}"
