"""Counts Events: one entry for an Event that occurs repeatedly. Pure.

At most MOST_WAITING entries wait to be published, and MOST_PUBLISHED entries are kept to count on.
Dropped entries are counted, and the count is published once there is room. More than SIMILAR
messages of one reason within SIMILAR_FOR become one entry with the newest message.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from agent.detectors import EventReport, EventSeverity
from agent.nodestatus.board import MESSAGE_BYTES, REASON_BYTES, cut

MOST_WAITING = 256
MOST_PUBLISHED = 256
SIMILAR = 10
SIMILAR_FOR = timedelta(minutes=10)
COUNTED_FOR = timedelta(minutes=50)
"""The API server drops an Event after an hour, so a later occurrence is a new Event."""
COMBINED = "(combined from similar events): "
EVENTS_DROPPED = "EventsLeftOut"


class EventEntry(msgspec.Struct, kw_only=True):
    """An Event that is published or waits to be.

    name: of the object, a hash of its content and first time
    first, last: first and last occurrence, by the host's clock
    told: published part of `count`
    """

    name: str
    reason: str
    message: str
    severity: EventSeverity
    detector: str
    first: datetime
    last: datetime
    count: int = 1
    told: int = 0

    @property
    def content(self) -> tuple[str, ...]:
        message = COMBINED if self.message.startswith(COMBINED) else self.message
        return (self.detector, self.reason, self.severity, message)


class DroppedEvents(msgspec.Struct, kw_only=True):
    """Number and times of Events that were dropped unpublished."""

    count: int = 0
    first: datetime | None = None
    last: datetime | None = None

    def add(self, count: int, first: datetime, last: datetime) -> None:
        self.count += count
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)


class EventTally:
    """Holds the entries. waiting, dropped: entries that an earlier process did not publish."""

    def __init__(
        self,
        waiting: Iterable[EventEntry] = (),
        dropped: DroppedEvents | None = None,
        *,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._most_waiting = most_waiting
        self._waiting: OrderedDict[tuple[str, ...], EventEntry] = OrderedDict()
        self._published: OrderedDict[tuple[str, ...], EventEntry] = OrderedDict()
        self._kinds: OrderedDict[tuple[str, ...], list[datetime]] = OrderedDict()
        self.dropped = dropped or DroppedEvents()
        for entry in waiting:
            self._wait(entry)

    def put(self, report: EventReport, now: datetime) -> EventEntry:
        at = min(report.at, now)
        entry = self._entry(report, at)
        known = self._waiting.get(entry.content)
        if known is None:
            published = self._published.pop(entry.content, None)
            known = (
                published if published is not None and at - published.first <= COUNTED_FOR else None
            )
        if known is None:
            self._wait(entry)
            return entry
        known.count += 1
        known.last = max(known.last, at)
        known.message = entry.message
        self._wait(known)
        return known

    def _entry(self, report: EventReport, at: datetime) -> EventEntry:
        message = cut(report.message, MESSAGE_BYTES)
        reason = cut(report.reason, REASON_BYTES) or "Unknown"
        kind = (report.detector, reason, report.severity)
        exact = (*kind, message)
        if exact not in self._waiting and exact not in self._published and self._many(kind, at):
            message = cut(COMBINED + report.message, MESSAGE_BYTES)
        digest = hashlib.sha256("\0".join((*kind, message, at.isoformat())).encode())
        return EventEntry(
            name=digest.hexdigest()[:16],
            reason=reason,
            message=message,
            severity=EventSeverity(report.severity),
            detector=report.detector,
            first=at,
            last=at,
        )

    def _many(self, kind: tuple[str, ...], at: datetime) -> bool:
        """Return whether this kind already has SIMILAR messages within SIMILAR_FOR."""
        times = [t for t in self._kinds.pop(kind, []) if at - t < SIMILAR_FOR]
        many = len(times) >= SIMILAR
        self._kinds[kind] = times if many else [*times, at]
        if len(self._kinds) > MOST_PUBLISHED:
            self._kinds.popitem(last=False)
        return many

    def _wait(self, entry: EventEntry) -> None:
        self._waiting[entry.content] = entry
        if len(self._waiting) > self._most_waiting:
            oldest = next(key for key, e in self._waiting.items() if e.reason != EVENTS_DROPPED)
            dropped = self._waiting.pop(oldest)
            self.dropped.add(dropped.count - dropped.told, dropped.first, dropped.last)

    def waiting(self) -> list[EventEntry]:
        """Return the waiting entries, oldest first."""
        return list(self._waiting.values())

    def mark_published(self, entry: EventEntry, count: int) -> None:
        """Mark `count` occurrences of the entry as published."""
        entry.told = count
        if entry.told >= entry.count and self._waiting.pop(entry.content, None) is not None:
            self._published[entry.content] = entry
            if len(self._published) > MOST_PUBLISHED:
                self._published.popitem(last=False)

    def own_up(self, detector: str) -> None:
        """Queue a report of the dropped Events as the next entry, unless one waits already."""
        dropped = self.dropped
        if not dropped.count or dropped.first is None or dropped.last is None:
            return
        if any(entry.reason == EVENTS_DROPPED for entry in self._waiting.values()):
            return
        self.dropped = DroppedEvents()
        span = f"between {dropped.first:%Y-%m-%dT%H:%M:%SZ} and {dropped.last:%Y-%m-%dT%H:%M:%SZ}"
        message = (
            f"{dropped.count} events of this node {span} were too many to keep and are not told"
        )
        entry = self.put(
            EventReport(EVENTS_DROPPED, message, EventSeverity.WARNING, dropped.last, detector),
            dropped.last,
        )
        self._waiting.move_to_end(entry.content, last=False)
