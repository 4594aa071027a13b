"""Reads Events of a node in a sliding window: Kubernetes Events, and HostEvents as they occur."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from kubenode.api.duration import format_duration as span
from kubenode.api.v1alpha1.leaves import EventLeaf
from rules.facts import EventFact, FactSet
from rules.history import DAWN
from rules.leaves.describe import subject
from rules.leaves.pattern import finds_pattern
from rules.leaves.result import LeafReading
from rules.truth import Truth

_ONCE = {
    Truth.TRUE: "occurred",
    Truth.FALSE: "did not occur",
    Truth.UNKNOWN: "perhaps occurred",
}
_OFTEN = {
    Truth.TRUE: "occurred at least {count} times",
    Truth.FALSE: "occurred less than {count} times",
    Truth.UNKNOWN: "perhaps occurred {count} times",
}


def event(leaf: EventLeaf, facts: FactSet, now: datetime) -> LeafReading:
    """Read an Event leaf.

    Only the last occurrence of an aggregated Event has a time. If the first one was before the
    window, the number within the window is between a least and a most, and the answer may be
    unknown.
    """
    begin = now - leaf.within
    counted = [e for e in facts.events if begin < e.at <= now and fits(leaf, e)]
    least, most = sum(_least(e, begin) for e in counted), sum(e.count for e in counted)
    truth = _reached(leaf.count, least, most)
    often = (_ONCE if leaf.count == 1 else _OFTEN)[truth].format(count=leaf.count)
    says = f"{often} within {span(leaf.within)}"
    known = [e for e in counted if not e.forgotten]
    last = max((e.at for e in known), default=None)
    source = known[-1].source if known else ""
    flips_at = _event_flips(counted, leaf, begin) if most >= leaf.count else None
    return LeafReading(truth, subject(leaf), says, least, source, last, flips_at)


def _least(event: EventFact, begin: datetime) -> int:
    """Return how many occurrences are certainly after `begin`; the one at `event.at` is."""
    if event.forgotten:
        return 0
    return event.count if event.first is None or event.first > begin else 1


def _reached(wanted: int, least: int, most: int) -> Truth:
    if least >= wanted:
        return Truth.TRUE
    return Truth.FALSE if most < wanted else Truth.UNKNOWN


def _event_flips(counted: Sequence[EventFact], leaf: EventLeaf, begin: datetime) -> datetime | None:
    """Return when enough occurrences have left the window to change the answer."""
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


def fits(leaf: EventLeaf, event: EventFact) -> bool:
    if event.about_pod and leaf.reason is None:
        return False
    return event.forgotten or (
        (leaf.reason is None or event.reason == leaf.reason)
        and (leaf.source is None or event.source == leaf.source)
        and (leaf.severity is None or event.severity == leaf.severity)
        and finds_pattern(leaf.message, event.message)
    )


def last_true(
    leaf: EventLeaf, facts: FactSet, now: datetime
) -> tuple[datetime | None, datetime | None]:
    """Return when the count last fell below the leaf's: for certain, and perhaps. None: never.

    Only the last occurrence of an aggregated Event is certain. The others may be at any time since
    its first.
    """
    sure: list[tuple[datetime, datetime, int]] = []
    perhaps: list[tuple[datetime, datetime, int]] = []
    for fact in facts.events:
        if not fits(leaf, fact):
            continue
        at = min(fact.at, now)
        first = DAWN if fact.forgotten else min(fact.first or at, at)
        perhaps.append((first, at + leaf.within, fact.count))
        if not fact.forgotten:
            sure.append((at, at + leaf.within, fact.count if fact.first is None else 1))
    return _last_end(sure, leaf.count), _last_end(perhaps, leaf.count)


def _last_end(spans: Iterable[tuple[datetime, datetime, int]], wanted: int) -> datetime | None:
    """Return when the sum last fell below `wanted`. Each span counts from its begin to its end."""
    edges = [(begin, count) for begin, _, count in spans]
    edges += [(end, -count) for _, end, count in spans]
    edges.sort(key=itemgetter(0))
    total, last = 0, None
    for at, changes in groupby(edges, key=itemgetter(0)):
        before, total = total, total + sum(change for _, change in changes)
        if before >= wanted > total:
            last = at
    return last
