"""Reads one leaf of a rule against a FactSet: a truth, and the reason for it. Pure.

Every leaf is three-valued. A fact is unknown if it was never reported, if its report is too old, or
if it comes from a stale cache. `flips_at` is the earliest instant at which time alone would change
the answer, so the leaf need not be read again before it. Each kind of leaf has a module of its own
in rules.leaves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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
from rules.facts import FactSet
from rules.leaves.absent import absent
from rules.leaves.alert import alert
from rules.leaves.compare import compares, counted, fact, probe
from rules.leaves.condition import condition
from rules.leaves.describe import describe as describe_leaf
from rules.leaves.describe import subject
from rules.leaves.event import event
from rules.leaves.hostevent import host_event
from rules.leaves.metadata import annotation, label, taint
from rules.leaves.pattern import finds_pattern
from rules.leaves.result import LeafReading
from rules.leaves.unread import UnreadReports, unread
from rules.sources import stale_source
from rules.truth import Truth

__all__ = [
    "AnyLeaf",
    "Atom",
    "CountedFact",
    "LeafReading",
    "compares",
    "describe",
    "finds_pattern",
    "read",
]

AnyLeaf = Leaf | AbsentLeaf


@dataclass(frozen=True, slots=True)
class CountedFact:
    """A leaf `<group>.sameFault` of the rule with this id. Its count differs from rule to rule."""

    rule: str
    leaf: FactLeaf


Atom = AnyLeaf | CountedFact | UnreadReports
"""A leaf as a program reads it from a node's facts."""


def read(leaf: Atom, facts: FactSet, now: datetime) -> LeafReading:
    """Read `leaf` on these facts at `now`.

    A bare leaf `<group>.sameFault` is unknown: it must be read as the CountedFact of its rule. So
    is one of rules.leaves.unread: its UnreadReports know the rules of the program.
    """
    if not facts.fresh:
        about = subject(_leaf_of(leaf))
        return LeafReading(Truth.UNKNOWN, about, "is not known: the cache is stale")
    if facts.stale and not isinstance(leaf, CountedFact):
        plain = _leaf_of(leaf)
        source = stale_source(plain, facts)
        if source:
            says = f"is not known: the cache of {source} is stale"
            return LeafReading(Truth.UNKNOWN, subject(plain), says)
    return _READ[type(leaf)](leaf, facts, now)


def describe(leaf: Atom) -> str:
    """Describe the leaf in a few words, such as `condition KernelDeadlock=True for 30s`."""
    return describe_leaf(_leaf_of(leaf))


def _leaf_of(atom: Atom) -> AnyLeaf:
    return atom.leaf if isinstance(atom, CountedFact | UnreadReports) else atom


def _counted(atom: CountedFact, facts: FactSet, now: datetime) -> LeafReading:
    return counted(atom.leaf, atom.rule, facts, now)


def _absent(leaf: AbsentLeaf, facts: FactSet, now: datetime) -> LeafReading:
    return absent(leaf, read(leaf.leaf, facts, now), facts, now)


_READ: Mapping[type, Callable[[Any, FactSet, datetime], LeafReading]] = {
    ConditionLeaf: condition,
    EventLeaf: event,
    HostEventLeaf: host_event,
    AlertLeaf: alert,
    LabelLeaf: label,
    AnnotationLeaf: annotation,
    TaintLeaf: taint,
    FactLeaf: fact,
    ProbeLeaf: probe,
    AbsentLeaf: _absent,
    CountedFact: _counted,
    UnreadReports: unread,
}
