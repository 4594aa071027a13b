"""How things stand with a leaf, with ages, in words that go on after "it": for people only.

Ages tick, so these words are for a screen, never for an object's status.
"""

from datetime import datetime, timedelta

from kubenode.api.v1alpha1.leaves import (
    AbsentLeaf,
    AnnotationLeaf,
    ConditionLeaf,
    EventLeaf,
    FactLeaf,
    LabelLeaf,
    Leaf,
    ProbeLeaf,
    TaintLeaf,
)
from rules.builtin import BUILTIN
from rules.facts import FactSet
from rules.leaves.condition import says_so
from rules.leaves.reading import Reading
from rules.probes import PROBES


def state(leaf: Leaf | AbsentLeaf, reading: Reading, facts: FactSet, now: datetime) -> str:
    """Such as `it is True since 12 s`."""
    if not facts.fresh:
        return "what is known of the node is stale"
    match leaf:
        case ConditionLeaf():
            return _condition(leaf, facts, now)
        case EventLeaf():
            return f"it occurred {reading.value or 0} times in that time for certain"
        case LabelLeaf() | AnnotationLeaf() | TaintLeaf():
            return "it is not there" if reading.value is None else f"it is {reading.value!r}"
        case FactLeaf() | ProbeLeaf() if reading.value is not None:
            return f"it is {_value(leaf, reading.value)}{_age(reading, now)}"
        case _:
            return reading.evidence


def ago(time: timedelta) -> str:
    """Such as `12 s`, `5 min`, `3 h`, `4 d`: the largest unit of which there are two."""
    seconds = time.total_seconds()
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _condition(leaf: ConditionLeaf, facts: FactSet, now: datetime) -> str:
    fact = facts.conditions.get(leaf.type)
    if fact is None:
        return "it was never reported"
    since = f"it is {fact.status} since {ago(now - fact.since)}"
    if now >= fact.heard + leaf.max_age:
        return f"it was last heard from {ago(now - fact.heard)} ago, saying {fact.status}"
    if fact.settles is not None and now < fact.settles:
        return f"{since}, when its reporter started: that is no finding yet"
    if fact.status == leaf.status and not says_so(leaf, fact):
        return f"{since}, but with reason {fact.reason!r} and message {fact.message!r}"
    return since


def _value(leaf: FactLeaf | ProbeLeaf, value: object) -> str:
    known = BUILTIN.get(leaf.name) or PROBES.get(leaf.name)
    if isinstance(value, bool):
        return str(value).lower()
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{shown} {known.unit}" if known is not None and known.unit else shown


def _age(reading: Reading, now: datetime) -> str:
    return "" if reading.observed_at is None else f", {ago(now - reading.observed_at)} ago"
