"""Finds the atoms of a program to read again after a node's facts changed.

An atom reads few parts of a FactSet. If these are unchanged, its truth is unchanged until it flips
by time. A later report of a reporter or source postpones such a flip and does not change a known
truth. So after such a report only unknown atoms are read again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from operator import attrgetter

from kubenode.api.v1alpha1.leaves import (
    AbsentLeaf,
    AlertLeaf,
    AnnotationLeaf,
    ConditionLeaf,
    EventLeaf,
    FactLeaf,
    HostEventLeaf,
    LabelLeaf,
    ProbeLeaf,
    TaintLeaf,
)
from rules.atoms import Atom, CountedFact
from rules.builtin import MAINTENANCE_UNTIL
from rules.engines.port import UNKNOWN, Vector
from rules.facts import ConditionFact, EventFact, FactSet
from rules.leaves.event import fits
from rules.leaves.unread import UnreadReports, counts
from rules.program import RuleProgram

Part = tuple[str, str]
"""A field of a FactSet and a key in it; "" for the whole field."""
_KEYED = {LabelLeaf: "label", AnnotationLeaf: "annotation", TaintLeaf: "taint"}
_MAPPINGS = ("annotations", "changed", "inferred", "labels", "probes", "taints", "values")
"""Fields that are compared by key."""
_WHOLE = ("host_events", "onsets", "same_fault", "unchanged_since", "watched")
"""Fields that are compared as a whole."""
_FINDING = attrgetter(
    *(field.name for field in fields(ConditionFact) if field.name != "received_at")
)


MOST_REMEMBERED = 4096
"""Bound on cached readers of Events, at most one or two KB each."""


class Touched:
    """Finds touched atoms. all: the atoms of the program."""

    def __init__(self, program: RuleProgram) -> None:
        self.all = frozenset(range(len(program.atoms)))
        slots: dict[str, dict[str, list[int]]] = {}
        for slot, atom in enumerate(program.atoms):
            for field, key in dict.fromkeys(_parts(atom)):
                slots.setdefault(field, {}).setdefault(key, []).append(slot)
        self._mappings = [
            (attrgetter(field), list(slots[field].items())) for field in _MAPPINGS if field in slots
        ]
        self._values = tuple(slots.get("values", ()))
        self._whole = [(attrgetter(field), slots[field][""]) for field in _WHOLE if field in slots]
        self._conditions = slots.get("conditions", {})
        self._any_condition = self._conditions.pop("", [])
        for members in self._conditions.values():
            members += self._any_condition
        self._event_leaves = [*_event_leaves(program)]
        self._of_reason: dict[str | None, list[tuple[int, EventLeaf]]] = {}
        for slot, leaf in self._event_leaves:
            self._of_reason.setdefault(leaf.reason, []).append((slot, leaf))
        self._events_read: dict[tuple[str, str, str, str], frozenset[int]] = {}
        self._unread = [
            n for n, atom in enumerate(program.atoms) if isinstance(atom, UnreadReports)
        ]
        self._alerts = slots.get("alerts", {}).get("", [])
        self._sources = slots.get("sources_alive_at", {}).get("", [])

    def remembered(self, facts: FactSet) -> FactSet:
        """Return the part of `facts` that `between` reads as `old`.

        It keeps only built-in facts that the program reads, because it is stored for thousands of
        nodes.
        """
        values = facts.values
        return replace(facts, values={n: values[n] for n in self._values if n in values})

    def between(self, old: FactSet, new: FactSet, vector: Vector) -> set[int]:
        """Return the atoms to read again. vector: their truths for `old`."""
        if (old.fresh, old.stale) != (new.fresh, new.stale) or old.unheard != new.unheard:
            return set(self.all)
        changed: set[int] = set()
        for part, members in self._mappings:
            before, after = part(old), part(new)
            if before is not after:
                for key, slots in members:
                    if before.get(key) != after.get(key):
                        changed.update(slots)
        for part, slots in self._whole:
            if part(old) != part(new):
                changed.update(slots)
        if self._conditions or self._any_condition:
            self._in_conditions(old.conditions, new.conditions, vector, changed)
        if (self._event_leaves or self._unread) and old.events != new.events:
            self._in_events(old.events, new.events, changed)
        if self._unread and old.labels != new.labels:
            changed.update(self._unread)
        if self._alerts:
            self._in_alerts(old, new, vector, changed)
        if self._sources and old.sources_alive_at != new.sources_alive_at:
            later = _all_later(old.sources_alive_at, new.sources_alive_at)
            changed.update(_unknown(self._sources, vector) if later else self._sources)
        return changed

    def _in_conditions(
        self,
        old: Mapping[str, ConditionFact],
        new: Mapping[str, ConditionFact],
        vector: Vector,
        changed: set[int],
    ) -> None:
        slots = self._conditions
        for name, fact in new.items():
            before = old.get(name)
            readers = slots.get(name, self._any_condition)
            if before is fact or not readers:
                continue
            is_later_report = (
                before is not None
                and before.received_at <= fact.received_at
                and _FINDING(before) == _FINDING(fact)
            )
            changed.update(_unknown(readers, vector) if is_later_report else readers)
        if not old.keys() <= new.keys():
            changed.update(self._any_condition)
            for name in old.keys() - new.keys():
                changed.update(slots.get(name, ()))

    def _in_events(
        self, old: Sequence[EventFact], new: Sequence[EventFact], changed: set[int]
    ) -> None:
        before, after = {id(e) for e in old}, {id(e) for e in new}
        for event in old:
            if id(event) not in after:
                self._event_changed(event, changed)
        for event in new:
            if id(event) not in before:
                self._event_changed(event, changed)

    def _event_changed(self, event: EventFact, changed: set[int]) -> None:
        changed.update(self._readers(event))
        if self._unread and counts(event):
            changed.update(self._unread)

    def _readers(self, event: EventFact) -> frozenset[int]:
        """Return the atoms that match such an Event; all Event atoms for a forgotten one."""
        if event.forgotten:
            return frozenset(slot for slot, _ in self._event_leaves)
        key = event.reason, event.message, event.source, event.severity
        known = self._events_read.get(key)
        if known is None:
            if len(self._events_read) >= MOST_REMEMBERED:
                self._events_read.clear()
            some = (*self._of_reason.get(event.reason, ()), *self._of_reason.get(None, ()))
            readers = frozenset(slot for slot, leaf in some if fits(leaf, event))
            known = self._events_read[key] = readers
        return known

    def _in_alerts(self, old: FactSet, new: FactSet, vector: Vector, changed: set[int]) -> None:
        if old.alerts != new.alerts or not _later(old.alerts_alive_at, new.alerts_alive_at):
            changed.update(self._alerts)
        elif old.alerts_alive_at != new.alerts_alive_at:
            changed.update(_unknown(self._alerts, vector))


def _parts(atom: Atom) -> Iterator[Part]:
    """Yield the parts that a reading of the atom depends on, including its `flips_at`."""
    match atom:
        case AbsentLeaf(leaf=inner):
            yield from _parts(inner)
            yield from _absence_parts(inner)
        case UnreadReports():
            yield "conditions", ""
        case CountedFact(leaf=counted):
            yield ("same_fault" if counted.within is None else "onsets"), ""
        case ConditionLeaf(type=name):
            yield "conditions", name
        case EventLeaf():
            return  # depends on some Events only: see Touched._readers
        case HostEventLeaf():
            yield "host_events", ""
        case AlertLeaf():
            yield "alerts", ""
        case LabelLeaf(key=name):
            yield "labels", name
        case AnnotationLeaf(key=name):
            yield "annotations", name
        case TaintLeaf(key=name):
            yield "taints", name
        case FactLeaf(name=name):
            yield "values", name
            yield "inferred", name
            if name == "node.notReadyFor":
                yield "values", "node.ready"
            if name == "maintenance.active":
                yield "annotations", MAINTENANCE_UNTIL
        case ProbeLeaf(name=name):
            yield "probes", name


def _event_leaves(program: RuleProgram) -> Iterator[tuple[int, EventLeaf]]:
    for slot, atom in enumerate(program.atoms):
        leaf = atom.leaf if isinstance(atom, AbsentLeaf) else atom
        if isinstance(leaf, EventLeaf):
            yield slot, leaf


def _absence_parts(inner: object) -> Iterator[Part]:
    """Yield the parts that show that the source of an absence is alive, and since when it lasts."""
    match inner:
        case EventLeaf():
            yield "watched", ""
            yield "conditions", ""
        case HostEventLeaf():
            yield "sources_alive_at", ""
        case LabelLeaf(key=name) | AnnotationLeaf(key=name) | TaintLeaf(key=name):
            yield "changed", f"{_KEYED[type(inner)]}:{name}"
            yield "unchanged_since", ""
        case _:
            return


def _unknown(slots: Iterable[int], vector: Vector) -> list[int]:
    return [slot for slot in slots if vector[slot] == UNKNOWN]


def _later(old: datetime | None, new: datetime | None) -> bool:
    return old is None or (new is not None and old <= new)


def _all_later(old: Mapping[str, datetime], new: Mapping[str, datetime]) -> bool:
    return old.keys() == new.keys() and all(at <= new[name] for name, at in old.items())
