"""Reads `absent`: a leaf has been false for a time in which its source was known to be alive.

Absence is evidence, so a silent source must not count as absence. The following shows that a source
is alive.

- condition: its own reports (`maxAge`), and time in which reports could arrive
- event: conditions of the kubelet, and of a detector if a detector would be the source; and that we
  observed Events for the whole time
- hostEvent: FactSet.sources_alive_at
- alert: FactSet.alerts_alive_at
- keys and facts: the Node itself, which is in a fresh cache

The history of facts and probes is not stored, so the compiler refuses `for` with them.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kubenode.api.duration import format_duration as span
from kubenode.api.v1alpha1.leaves import (
    AbsentLeaf,
    AlertLeaf,
    AnnotationLeaf,
    ConditionLeaf,
    EventLeaf,
    HostEventLeaf,
    LabelLeaf,
    Leaf,
    TaintLeaf,
)
from rules.facts import FactSet
from rules.history import DAWN
from rules.leaves import alert, event, hostevent
from rules.leaves.result import LeafReading, earliest
from rules.truth import Truth
from rules.unheard import unobserved_time

ALIVE = timedelta(minutes=15)
"""A reporter is alive if it wrote within this time; NPD and the kubelet write every 5 min."""
KUBELETS = frozenset(
    {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}
)
KUBELET = "kubelet"


def absent(leaf: AbsentLeaf, reading: LeafReading, facts: FactSet, now: datetime) -> LeafReading:
    """Read an absence. reading: of the leaf inside."""
    inner = leaf.leaf
    if reading.truth is not Truth.FALSE:
        return replace(reading, truth=~reading.truth)
    if isinstance(inner, EventLeaf):
        return _no_event(inner, leaf.for_, reading, facts, now)
    if isinstance(inner, HostEventLeaf):
        return _no_host_event(inner, leaf.for_, reading, facts, now)
    if not leaf.for_:
        return replace(reading, truth=Truth.TRUE)
    since = _SINCE.get(type(inner), _nobody_knows)(inner, facts)
    if since is None:
        unknown = f"{reading.finding}, since when is not known"
        return replace(reading, truth=Truth.UNKNOWN, finding=unknown)
    if since is _NOT_GONE:
        return replace(reading, truth=Truth.FALSE)
    lasted = _lasted(reading, since + leaf.for_, leaf.for_, now)
    if isinstance(inner, ConditionLeaf) and lasted.truth is Truth.TRUE:
        unobserved = unobserved_time(facts.conditions[inner.type], facts, now)
        return _observed(reading, since + leaf.for_ + unobserved, leaf.for_, now)
    return lasted


def _observed(
    reading: LeafReading, known_at: datetime, wanted: timedelta, now: datetime
) -> LeafReading:
    """Read an absence that lasted, if its reporter could have corrected it all the time.

    The next report can prove it before `known_at`: until then it is unknown, not false.
    """
    if now >= known_at:
        return replace(reading, truth=Truth.TRUE)
    deaf = f"{reading.finding}, not for {span(wanted)} in which its reporter could be heard"
    flips_at = earliest(known_at, reading.flips_at)
    return replace(reading, truth=Truth.UNKNOWN, finding=deaf, flips_at=flips_at)


def _lasted(
    reading: LeafReading, known_at: datetime, wanted: timedelta, now: datetime
) -> LeafReading:
    if now >= known_at:
        return replace(reading, truth=Truth.TRUE)
    young = f"{reading.finding}, not yet for {span(wanted)}"
    flips_at = earliest(known_at, reading.flips_at)
    return replace(reading, truth=Truth.FALSE, finding=young, flips_at=flips_at)


# -- since when a leaf that is false has been so --------------------------------------------------


def _condition_gone(leaf: ConditionLeaf, facts: FactSet) -> datetime | None:
    fact = facts.conditions[leaf.type]
    return _NOT_GONE if fact.status == leaf.status else fact.since


def _alert_gone(leaf: AlertLeaf, facts: FactSet) -> datetime | None:
    of_it = [a for a in facts.alerts if alert.fits(leaf, a)]
    if any(a.firing for a in of_it):
        return _NOT_GONE
    return max((a.since for a in of_it), default=DAWN)


def _key_gone(leaf: LabelLeaf | AnnotationLeaf | TaintLeaf, facts: FactSet) -> datetime | None:
    kind = {LabelLeaf: "label", AnnotationLeaf: "annotation", TaintLeaf: "taint"}[type(leaf)]
    return facts.changed.get(f"{kind}:{leaf.key}", facts.unchanged_since)


def _nobody_knows(leaf: Leaf, facts: FactSet) -> datetime | None:
    return None


_NOT_GONE = datetime.max.replace(tzinfo=UTC)
"""In place of an instant: the object is there, but the leaf is false of it."""
_SINCE: Mapping[type, Callable[[Any, FactSet], datetime | None]] = {
    ConditionLeaf: _condition_gone,
    AlertLeaf: _alert_gone,
    LabelLeaf: _key_gone,
    AnnotationLeaf: _key_gone,
    TaintLeaf: _key_gone,
}


# -- events ---------------------------------------------------------------------------------------


def _no_event(
    leaf: EventLeaf, wanted: timedelta, reading: LeafReading, facts: FactSet, now: datetime
) -> LeafReading:
    """Read an absence of Events: no window that ended within `wanted` had enough occurrences."""
    sure, perhaps = event.last_true(leaf, facts, now)
    if sure is not None and sure + wanted > now:
        return _lasted(reading, sure + wanted, wanted, now)
    why, known_at = _unheard(leaf, wanted, facts, now)
    if why:
        says = f"{reading.finding}, but {why}"
        return replace(reading, truth=Truth.UNKNOWN, finding=says, flips_at=known_at)
    if perhaps is not None and perhaps + wanted > now:
        flips_at = earliest(perhaps + wanted, _silent_at(leaf, facts))
        return replace(reading, truth=Truth.UNKNOWN, flips_at=flips_at)
    return replace(reading, truth=Truth.TRUE, flips_at=_silent_at(leaf, facts))


def _unheard(
    leaf: EventLeaf, wanted: timedelta, facts: FactSet, now: datetime
) -> tuple[str, datetime | None]:
    """Describe why an occurrence may have been missed, and when that ends by itself; "" if none
    was.
    """
    silent_at = _silent_at(leaf, facts)
    if silent_at is None or now >= silent_at:
        return "nothing tells that its source lives", None
    if facts.watched is None:
        return "since when we listen is not known", None
    covered_at = facts.watched + leaf.within + wanted
    return ("we have not listened for so long", covered_at) if now < covered_at else ("", None)


def _silent_at(leaf: EventLeaf, facts: FactSet) -> datetime | None:
    """Return until when the source of such an Event counts as alive; None if nothing shows it."""
    known = {t: c for t, c in facts.conditions.items() if c.status in ("True", "False")}
    kubelet = max((c.received_at for t, c in known.items() if t in KUBELETS), default=None)
    detector = max((c.received_at for t, c in known.items() if t not in KUBELETS), default=None)
    needed = [kubelet]
    if leaf.source not in (None, KUBELET) or (leaf.source is None and detector is not None):
        needed.append(detector)
    if None in needed:
        return None
    return min(at for at in needed if at is not None) + ALIVE


# -- HostEvents -----------------------------------------------------------------------------------


def _no_host_event(
    leaf: HostEventLeaf, wanted: timedelta, reading: LeafReading, facts: FactSet, now: datetime
) -> LeafReading:
    alive_at = facts.sources_alive_at
    if leaf.source is not None:
        alive_at = {name: at for name, at in alive_at.items() if name == leaf.source}
    silent_at = min(alive_at.values(), default=DAWN) + alert.SILENCE
    if now >= silent_at:
        says = f"{reading.finding}, but nothing tells that its source lives"
        return replace(reading, truth=Truth.UNKNOWN, finding=says)
    in_any_phase = leaf.model_copy(update={"phase": None})
    closed = [e for e in facts.host_events if hostevent.fits(in_any_phase, e)]
    closed = [e for e in closed if e.phase in hostevent.CLOSED]
    last = max((e.last_observed_at for e in closed), default=DAWN)
    flips_at = earliest(reading.flips_at, silent_at)
    if last + wanted > now:
        return _lasted(replace(reading, flips_at=flips_at), last + wanted, wanted, now)
    # The end of an Expired HostEvent is not recorded: it was after its last observation.
    if wanted and any(e.phase == "Expired" for e in closed):
        says = f"{reading.finding}, but since when one is expired is not known"
        return replace(reading, truth=Truth.UNKNOWN, finding=says)
    return replace(reading, truth=Truth.TRUE, flips_at=flips_at)
