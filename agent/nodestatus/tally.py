"""Events that happened, counted: one entry for what is said again and again.

Pure. Bounds: MOST_WAITING entries wait to be told and MOST_TOLD are remembered to be counted on;
what does not fit is left out, counted, and told once there is room. More than SIMILAR messages of
one reason within a while become one entry that carries the newest message.
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
"""The API server forgets an Event after an hour; what comes later is a new one."""
COMBINED = "(combined from similar events): "
EVENTS_DROPPED = "EventsLeftOut"


class EventEntry(msgspec.Struct, kw_only=True):
    """One Event at the API server, told or to be told.

    name         of the object: drawn from what it says and when it was said first
    first, last  when the host had it, the first and the newest time
    told         of `count`, how many the API server has
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
    """What was not told, and cannot be any more."""

    count: int = 0
    first: datetime | None = None
    last: datetime | None = None

    def add(self, count: int, first: datetime, last: datetime) -> None:
        self.count += count
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)


class EventTally:
    """waiting, left_out: what an earlier process could not tell."""

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
        """Whether one more message of this kind is one too many."""
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
        """Oldest first."""
        return list(self._waiting.values())

    def mark_published(self, entry: EventEntry, count: int) -> None:
        """The API server has `count` of it."""
        entry.told = count
        if entry.told >= entry.count and self._waiting.pop(entry.content, None) is not None:
            self._published[entry.content] = entry
            if len(self._published) > MOST_PUBLISHED:
                self._published.popitem(last=False)

    def own_up(self, detector: str) -> None:
        """What was left out becomes the next to be told, unless that waits already."""
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
