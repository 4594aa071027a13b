"""What was said of a node, for as long as nothing that the rules read of it has changed.

A heartbeat makes a FactSet new, but no answer. A Diagnosis is said again while all that any leaf or
selection reads is equal, and until the earliest instant at which a reading flips; that a reporter
was heard from later only moves that instant away. Only Diagnoses in which both engines agree that
nothing matches are kept: their readings may be those of an earlier heartbeat.
"""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from kubenode.api.v1alpha1.leaves import (
    AbsentLeaf,
    AnnotationLeaf,
    ConditionLeaf,
    EventLeaf,
    FactLeaf,
    TaintLeaf,
)
from rules.facts import FactSet
from rules.program import Program

MOST_READINGS = 250_000
"""Kept in all, some 250 bytes each: nodes times atoms of the program."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Said(Generic[T]):
    facts: FactSet
    at: datetime
    until: datetime
    answer: T


class Unchanged(Generic[T]):
    def __init__(self, program: Program) -> None:
        leaves = [x.leaf if isinstance(x, AbsentLeaf) else x for x in program.atoms]
        self._ages: dict[str, timedelta] = {}
        """Type of a condition to the shortest silence that some leaf takes for unknown."""
        for leaf in leaves:
            if isinstance(leaf, ConditionLeaf):
                shortest = min(leaf.max_age, self._ages.get(leaf.type, leaf.max_age))
                self._ages[leaf.type] = shortest
        self._values = {leaf.name for leaf in leaves if isinstance(leaf, FactLeaf)}
        self._annotations = {leaf.key for leaf in leaves if isinstance(leaf, AnnotationLeaf)}
        self._taints = any(isinstance(leaf, TaintLeaf) for leaf in leaves)
        self._events = any(isinstance(leaf, EventLeaf) for leaf in leaves)
        self._most = MOST_READINGS // max(len(leaves), 1)
        self._said: OrderedDict[str, _Said[T]] = OrderedDict()

    def recall(self, facts: FactSet, now: datetime) -> T | None:
        said = self._said.get(facts.node)
        if said is None:
            return None
        if said.at <= now < said.until and self._same(said, facts):
            return said.answer
        del self._said[facts.node]
        return None

    def keep(self, facts: FactSet, now: datetime, until: datetime | None, answer: T) -> None:
        """until  when the earliest of all readings flips; None: none does"""
        if len(self._said) >= self._most:
            # A full house changes slowly: pushing out the oldest would push out every node of a
            # cluster that is larger, in turn, each just before it is asked about.
            oldest = next(iter(self._said))
            if self._said[oldest].until > now:
                return
            del self._said[oldest]
        self._said[facts.node] = _Said(facts, now, until or now + timedelta(hours=1), answer)

    def clear(self) -> None:
        self._said.clear()

    def _same(self, said: _Said[T], new: FactSet) -> bool:
        old = said.facts
        return (
            (old.uid, old.fresh, old.labels) == (new.uid, new.fresh, new.labels)
            and (not self._taints or old.taints == new.taints)
            and (not self._events or old.events == new.events)
            and all(old.annotations.get(k) == new.annotations.get(k) for k in self._annotations)
            and all(old.values.get(name) == new.values.get(name) for name in self._values)
            and all(self._same_condition(said, new, type_) for type_ in self._ages)
        )

    def _same_condition(self, said: _Said[T], new: FactSet, type_: str) -> bool:
        one, other = said.facts.conditions.get(type_), new.conditions.get(type_)
        if one is None or other is None:
            return one is other
        if one.heard != other.heard:
            silent = said.at >= one.heard + self._ages[type_]
            if silent or other.heard < one.heard:
                return False
        return (one.status, one.reason, one.message, one.since) == (
            other.status,
            other.reason,
            other.message,
            other.since,
        )
