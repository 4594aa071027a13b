"""Describes the state of a leaf with ages, for people only.

The text does not repeat what the leaf's description says. Ages tick, so the text is for a screen
and never for an object's status.
"""

import math
from datetime import datetime, timedelta

from kubenode.api.duration import format_duration
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
from rules.leaves.describe import describe
from rules.leaves.result import LeafReading
from rules.probes import PROBES
from rules.sources import stale_source
from rules.truth import Truth
from rules.unheard import unobserved_time


def state(leaf: Leaf | AbsentLeaf, reading: LeafReading, facts: FactSet, now: datetime) -> str:
    """Describe the state, such as `it is True for 12 s`; "" if the leaf's description says it."""
    if not facts.fresh:
        return STALE
    if source := stale_source(leaf, facts):
        return f"the cache of {source} is stale"
    text = _describe_state(leaf, reading, facts, now)
    return "" if reading.truth is Truth.TRUE and _says_it(leaf, reading, text) else text


STALE = "what is known of the node is stale"


def _says_it(leaf: Leaf | AbsentLeaf, reading: LeafReading, text: str) -> bool:
    """Return whether the description of a true leaf says `text`, as `fact node.ready is true`
    does.
    """
    question = describe(leaf)
    if question.endswith(text.removeprefix("it")):
        return True
    plain = isinstance(leaf, FactLeaf | LabelLeaf | AnnotationLeaf | TaintLeaf)
    return plain and question.endswith((f"={reading.value}", f"= {reading.value}"))


def _describe_state(
    leaf: Leaf | AbsentLeaf, reading: LeafReading, facts: FactSet, now: datetime
) -> str:
    match leaf:
        case ConditionLeaf():
            return _condition(leaf, reading, facts, now)
        case EventLeaf():
            return f"it occurred {reading.value or 0} times in that time for certain"
        case LabelLeaf() | AnnotationLeaf() | TaintLeaf():
            return "it is absent" if reading.value is None else f"it is {reading.value!r}"
        case FactLeaf() if leaf.window is not None:
            return f"now is {'inside' if reading.value is True else 'outside'}"
        case FactLeaf() if reading.value is not None:
            derived_gone = reading.value is False and leaf.name not in BUILTIN
            return "it does not hold" if derived_gone else f"it is {_value(leaf, reading.value)}"
        case ProbeLeaf():
            return _answer(leaf, reading, now)
        case _:
            return f"it {reading.finding}"


def ago(time: timedelta) -> str:
    """Format an age in the largest unit with a value of at least two: `12 s`, `5 min`, `3 h`, `4
    d`.
    """
    seconds = time.total_seconds()
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _condition(leaf: ConditionLeaf, reading: LeafReading, facts: FactSet, now: datetime) -> str:
    fact = facts.conditions.get(leaf.type)
    if fact is None:
        return "it is not reported"
    lasts = f"for {ago(now - fact.since)}"
    if fact.began is not None:
        lasts += f", perhaps for {ago(now - fact.began)}: its reporter has not repeated it"
    since = f"it is {fact.status} {lasts}"
    if now >= fact.received_at + leaf.max_age:
        return f"it was last heard from {ago(now - fact.received_at)} ago, saying {fact.status}"
    if fact.settles is not None and now < fact.settles:
        return f"{since}, when its reporter started: that is no finding yet"
    if fact.status == leaf.status and not says_so(leaf, fact):
        return f"{since}, but with reason {fact.reason!r} and message {fact.message!r}"
    stands = f"it is {fact.status} ({fact.reason}) {lasts}" if fact.reason else since
    if fact.status == leaf.status and reading.truth is Truth.UNKNOWN:
        deaf = ago(unobserved_time(fact, facts, now))
        return f"{stands}, but its reporter could not be heard for {deaf} of it"
    return stands


def _answer(leaf: ProbeLeaf, reading: LeafReading, now: datetime) -> str:
    if reading.observed_at is None:
        return f"it {reading.finding}"
    age = f"{ago(now - reading.observed_at)} ago"
    if reading.value is None:
        return f"it {reading.finding}, {age}"
    if now - reading.observed_at >= leaf.max_age:
        age = f"{age}: an answer counts for {format_duration(leaf.max_age)}"
    return f"it is {_value(leaf, reading.value)}, {age}"


def _value(leaf: FactLeaf | ProbeLeaf, value: object) -> str:
    known = BUILTIN.get(leaf.name) or PROBES.get(leaf.name)
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, int | float):
        return repr(value)
    if value == math.inf:
        return "infinite"
    unit = known.unit if known is not None else ""
    shown = f"{value:.6g}" if isinstance(value, float) else str(value)
    if unit == "seconds" and value >= _MINUTES:
        return f"{format_duration(timedelta(seconds=round(value)))} ({round(value)} seconds)"
    return f"{shown} {unit}" if unit else shown


_MINUTES = 120
"""Seconds from which a duration is shown in minutes."""
