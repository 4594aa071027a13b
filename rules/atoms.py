"""Reads one leaf of a rule against a FactSet: a truth, and how it came to it. Pure.

Every leaf is three-valued. What was never reported, was not heard from for too long, or comes from
a stale cache is unknown. `flips_at` is the earliest instant at which the answer would change with
nothing but time, so that nobody has to ask again before it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import re2

from kubenode.api.v1alpha1.leaves import (
    AbsentLeaf,
    AlertLeaf,
    AnnotationLeaf,
    ConditionLeaf,
    EventLeaf,
    FactLeaf,
    HostEventLeaf,
    LabelLeaf,
    Leaf,
    ProbeLeaf,
    TaintLeaf,
)
from rules.builtin import BUILTIN
from rules.facts import ConditionFact, EventFact, FactSet
from rules.truth import Truth

AnyLeaf = Leaf | AbsentLeaf


@dataclass(frozen=True, slots=True)
class CountedFact:
    """A leaf `<group>.sameFault` of the rule with this id: what it counts differs by rule."""

    rule: str
    leaf: FactLeaf


Atom = AnyLeaf | CountedFact
"""What a program reads of a node."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a leaf was found to be.

    evidence     a sentence without ticking values
    source       who said so, such as `Node condition`; "" for nobody
    observed_at  when that was reported; None for what has no time
    flips_at     when the answer would change with nothing but time; None for never
    """

    truth: Truth
    evidence: str
    value: object = None
    source: str = ""
    observed_at: datetime | None = None
    flips_at: datetime | None = None


def read(leaf: Atom, facts: FactSet, now: datetime) -> Reading:
    """`leaf` on these facts at `now`.

    A bare leaf `<group>.sameFault` is unknown: it must be asked as a CountedFact of its rule.
    """
    if not facts.fresh:
        return Reading(Truth.UNKNOWN, f"{describe(leaf)}: the cache is stale")
    return _READ[type(leaf)](leaf, facts, now)


@lru_cache(maxsize=4096)
def _described(kind: type, parts: tuple[str, ...]) -> str:
    return " ".join(filter(None, parts))


def describe(leaf: Atom) -> str:
    """The leaf in a few words, such as `condition KernelDeadlock=True for 30s`."""
    match leaf:
        case CountedFact():
            return describe(leaf.leaf)
        case ConditionLeaf():
            held = f"for {_text(leaf.for_)}" if leaf.for_ else ""
            return _described(type(leaf), ("condition", f"{leaf.type}={leaf.status}", held))
        case EventLeaf():
            what = leaf.reason or f"~{leaf.message}"
            times = f"{leaf.count} times within {_text(leaf.within)}"
            return _described(type(leaf), ("event", what, times))
        case LabelLeaf():
            return _keyed("label", leaf)
        case AnnotationLeaf():
            return _keyed("annotation", leaf)
        case TaintLeaf():
            return _keyed("taint", leaf)
        case FactLeaf() | ProbeLeaf():
            kind = "fact" if isinstance(leaf, FactLeaf) else "probe"
            return f"{kind} {leaf.name} {_comparison(leaf)}"
        case HostEventLeaf():
            return f"hostEvent {leaf.class_ or 'any'}"
        case AlertLeaf():
            return f"alert {leaf.name}"
        case AbsentLeaf():
            return f"absent {describe(leaf.leaf)} for {_text(leaf.for_)}"


def _text(span: timedelta) -> str:
    seconds = span.total_seconds()
    return f"{seconds:g}s"


def _keyed(kind: str, leaf: LabelLeaf | AnnotationLeaf | TaintLeaf) -> str:
    if leaf.value is not None:
        return f"{kind} {leaf.key}={leaf.value}"
    if leaf.in_ is not None:
        return f"{kind} {leaf.key} in {', '.join(leaf.in_)}"
    return f"{kind} {leaf.key} {'exists' if leaf.exists is not False else 'is absent'}"


def _comparison(leaf: FactLeaf | ProbeLeaf) -> str:
    for word, wanted in (("=", leaf.equals), ("<", leaf.below), (">", leaf.above)):
        if wanted is not None:
            return f"{word} {wanted}"
    if leaf.in_ is not None:
        return f"in {', '.join(map(str, leaf.in_))}"
    return f"is {'true' if leaf.is_ is not False else 'false'}"


# -- conditions ----------------------------------------------------------------------------------


def _condition(leaf: ConditionLeaf, facts: FactSet, now: datetime) -> Reading:
    fact = facts.conditions.get(leaf.type)
    if fact is None:
        return Reading(Truth.UNKNOWN, f"condition {leaf.type} was never reported")
    silent_at = fact.heard + leaf.max_age
    says = f"condition {leaf.type} is {fact.status} ({fact.reason or 'no reason'})"
    reading = Reading(
        Truth.UNKNOWN, says, fact.status, "Node condition", fact.heard, flips_at=silent_at
    )
    if now >= silent_at:
        silent = f"{says}, not heard from for longer than {_text(leaf.max_age)}"
        return replace(reading, evidence=silent, flips_at=None)
    if fact.status != leaf.status:
        undecided = fact.status not in ("True", "False")
        return replace(reading, truth=Truth.UNKNOWN if undecided else Truth.FALSE)
    if not _says(leaf, fact):
        return replace(reading, truth=Truth.FALSE, evidence=f"{says}: another reason or message")
    held_at = fact.since + leaf.for_
    if now < held_at:
        young = f"{says}, not yet for {_text(leaf.for_)}"
        return replace(reading, truth=Truth.FALSE, evidence=young, flips_at=min(held_at, silent_at))
    return replace(reading, truth=Truth.TRUE)


def _says(leaf: ConditionLeaf, fact: ConditionFact) -> bool:
    return found(leaf.reason, fact.reason) and found(leaf.message, fact.message)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    return re2.compile(pattern, options)


def found(pattern: str | None, text: str) -> bool:
    """Whether RE2 finds `pattern` in `text`; None asks nothing."""
    return pattern is None or _compiled(pattern).search(text) is not None


# -- events --------------------------------------------------------------------------------------


def _event(leaf: EventLeaf, facts: FactSet, now: datetime) -> Reading:
    """Of an aggregated Event only the last occurrence has a time: of those that began before the
    window some may lie in it. Between "at least" and "at most" the answer is unknown.
    """
    begin = now - leaf.within
    counted = [e for e in facts.events if begin < e.at <= now and _fits(leaf, e)]
    least, most = sum(_least(e, begin) for e in counted), sum(e.count for e in counted)
    truth = _reached(leaf.count, least, most)
    how = {Truth.TRUE: "at least", Truth.FALSE: "less than", Truth.UNKNOWN: "perhaps"}[truth]
    what = leaf.reason or f"matching {leaf.message!r}"
    evidence = f"event {what} occurred {how} {leaf.count} times within {_text(leaf.within)}"
    known = [e for e in counted if not e.forgotten]
    last = max((e.at for e in known), default=None)
    source = known[-1].source if known else ""
    flips_at = _event_flips(counted, leaf, begin) if most >= leaf.count else None
    return Reading(truth, evidence, least, source, last, flips_at)


def _least(event: EventFact, begin: datetime) -> int:
    """How many occurrences are certainly after `begin`; `event.at` is."""
    if event.forgotten:
        return 0
    return event.count if event.first is None or event.first > begin else 1


def _reached(wanted: int, least: int, most: int) -> Truth:
    if least >= wanted:
        return Truth.TRUE
    return Truth.FALSE if most < wanted else Truth.UNKNOWN


def _event_flips(counted: Sequence[EventFact], leaf: EventLeaf, begin: datetime) -> datetime | None:
    """When enough has left the window for another answer."""
    changes: list[tuple[datetime, int, int]] = []
    for event in counted:
        certain = _least(event, begin)
        if event.first is not None and certain > 1:
            changes.append((event.first, certain - 1, 0))
            certain = 1
        changes.append((event.at, certain, event.count))
    least, most = sum(c[1] for c in changes), sum(c[2] for c in changes)
    before = _reached(leaf.count, least, most)
    changes.sort()
    for n, (at, certain, possible) in enumerate(changes):
        least, most = least - certain, most - possible
        together = n + 1 < len(changes) and changes[n + 1][0] == at
        if not together and _reached(leaf.count, least, most) is not before:
            return at + leaf.within
    return None


def _fits(leaf: EventLeaf, event: EventFact) -> bool:
    return event.forgotten or (
        (leaf.reason is None or event.reason == leaf.reason)
        and (leaf.source is None or event.source == leaf.source)
        and (leaf.severity is None or event.severity == leaf.severity)
        and found(leaf.message, event.message)
    )


# -- labels, annotations, taints, facts ----------------------------------------------------------


def _lookup(
    kind: str, leaf: LabelLeaf | AnnotationLeaf | TaintLeaf, have: Mapping[str, str]
) -> Reading:
    value = have.get(leaf.key)
    if leaf.value is not None:
        truth = value == leaf.value
    elif leaf.in_ is not None:
        truth = value in leaf.in_
    else:
        truth = (value is not None) == (leaf.exists is not False)
    shown = "is absent" if value is None else f"is {value!r}"
    return Reading(Truth.of(truth), f"{kind} {leaf.key} {shown}", value, "Node")


def _label(leaf: LabelLeaf, facts: FactSet, now: datetime) -> Reading:
    return _lookup("label", leaf, facts.labels)


def _annotation(leaf: AnnotationLeaf, facts: FactSet, now: datetime) -> Reading:
    return _lookup("annotation", leaf, facts.annotations)


def _taint(leaf: TaintLeaf, facts: FactSet, now: datetime) -> Reading:
    return _lookup("taint", leaf, facts.taints)


def _counted(atom: CountedFact, facts: FactSet, now: datetime) -> Reading:
    leaf = atom.leaf
    count = facts.same_fault.get(atom.rule, {}).get(leaf.name.partition(".")[0])
    if count is None:
        return Reading(Truth.UNKNOWN, f"{describe(leaf)}: not counted yet")
    return Reading(compares(leaf, count), describe(leaf), count, "count of nodes")


def _inferred(leaf: FactLeaf, facts: FactSet) -> Reading:
    """False stands for a fact that is known not to hold, whatever its value would be."""
    value = facts.inferred.get(leaf.name)
    if value is None:
        return Reading(Truth.UNKNOWN, f"derived fact {leaf.name} is not known")
    if value is False:
        gone = f"derived fact {leaf.name} does not hold"
        return Reading(Truth.FALSE, gone, value, "derived fact")
    return Reading(compares(leaf, value), describe(leaf), value, "derived fact")


def _fact(leaf: FactLeaf, facts: FactSet, now: datetime) -> Reading:
    if leaf.name not in BUILTIN:
        return _inferred(leaf, facts)
    value = facts.values.get(leaf.name)
    if value is None:
        return Reading(Truth.UNKNOWN, f"fact {leaf.name} is not known")
    truth = compares(leaf, value)
    known = "" if truth is not Truth.UNKNOWN else f": {value!r} cannot be compared so"
    return Reading(truth, f"{describe(leaf)}{known}", value, "built-in fact")


def compares(leaf: FactLeaf | ProbeLeaf, value: object) -> Truth:
    """UNKNOWN when `value` is of a type that the comparison does not fit."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if leaf.below is not None or leaf.above is not None:
        if not number or not isinstance(value, int | float):
            return Truth.UNKNOWN
        if leaf.below is not None:
            return Truth.of(value < leaf.below)
        assert leaf.above is not None
        return Truth.of(value > leaf.above)
    if leaf.equals is not None:
        return Truth.of(value == leaf.equals and type(value) is not bool)
    if leaf.in_ is not None:
        return Truth.of(value in leaf.in_ and type(value) is not bool)
    if not isinstance(value, bool):
        return Truth.UNKNOWN
    return Truth.of(value is (leaf.is_ is not False))


# -- absence, and what this version is not fed ---------------------------------------------------


def _absent(leaf: AbsentLeaf, facts: FactSet, now: datetime) -> Reading:
    inner = leaf.leaf
    reading = read(inner, facts, now)
    if reading.truth is not Truth.FALSE or not leaf.for_:
        return replace(reading, truth=~reading.truth)
    assert isinstance(inner, ConditionLeaf)  # the compiler refuses `for` of anything else
    fact = facts.conditions[inner.type]
    gone_at = fact.since + leaf.for_
    if fact.status == inner.status:  # held too short, or for another reason: it is not absent
        return replace(reading, truth=Truth.FALSE)
    if now < gone_at:
        young = f"{reading.evidence}, not yet for {_text(leaf.for_)}"
        flips_at = min(gone_at, reading.flips_at or gone_at)
        return replace(reading, truth=Truth.FALSE, evidence=young, flips_at=flips_at)
    return replace(reading, truth=Truth.TRUE)


def _not_fed(leaf: AnyLeaf, facts: FactSet, now: datetime) -> Reading:
    return Reading(Truth.UNKNOWN, f"{describe(leaf)}: nothing feeds it in this version")


_READ: Mapping[type, Callable[[Any, FactSet, datetime], Reading]] = {
    ConditionLeaf: _condition,
    EventLeaf: _event,
    LabelLeaf: _label,
    AnnotationLeaf: _annotation,
    TaintLeaf: _taint,
    FactLeaf: _fact,
    AbsentLeaf: _absent,
    CountedFact: _counted,
    HostEventLeaf: _not_fed,
    AlertLeaf: _not_fed,
    ProbeLeaf: _not_fed,
}
