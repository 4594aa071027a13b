"""Stores Events that rules count in windows of over a day in the node record. Pure.

The API server deletes Events after an hour, and a process remembers them until it ends.
"""

from collections.abc import Callable
from datetime import datetime

from kubenode.api.v1alpha1.noderecord import CountedEvent, EventMemory, PastEvents
from kubenode.instants import FIRST
from rules.facts import EventFact
from rules.history import DAWN, LastingEvents

SOURCE, SEVERITY, UID = 253, 63, 128
"""Longest stored values, in characters: source and severity are cut, longer UIDs are not stored."""


def to_stored(
    lasting: LastingEvents | None, lived: Callable[[datetime], bool]
) -> EventMemory | None:
    """Return what to store; None: nothing. `lived`: whether the node was this machine
    at that time.
    """
    events = [_stored(event) for event in lasting.events if lived(event.at)] if lasting else []
    if lasting is None or not events:
        return None
    counted = [
        CountedEvent(uid=uid, count=count, at=at)
        for uid, (count, at) in lasting.counted
        if len(uid) <= UID
    ]
    return EventMemory(events=events, counted=counted, dropped=lasting.dropped)


def from_stored(memory: EventMemory) -> LastingEvents:
    return LastingEvents(
        tuple(_fact(event) for event in memory.events),
        tuple((entry.uid, (entry.count, entry.at)) for entry in memory.counted),
        memory.dropped,
    )


def _stored(event: EventFact) -> PastEvents:
    return PastEvents(
        reason=event.reason,
        message=event.message,
        source=event.source[:SOURCE],
        severity=event.severity[:SEVERITY],
        count=event.count,
        at=event.at,
        first=None if event.first is None else max(event.first, FIRST),
        forgotten=event.forgotten,
    )


def _fact(event: PastEvents) -> EventFact:
    first = DAWN if event.first == FIRST else event.first
    return EventFact(
        reason=event.reason,
        message=event.message,
        source=event.source,
        severity=event.severity,
        count=event.count,
        at=event.at,
        first=first,
        forgotten=event.forgotten,
    )
