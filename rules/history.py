"""What must be remembered of a node to know since when, and how often. Bounded per node.

Times are the caller's. Since when a condition holds is in rules.held, since when a label is what it
is in rules.since; what Events occurred is here.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from rules.facts import EventFact
from rules.held import MOST_CONDITIONS, ConditionClock, Report
from rules.since import ClockSteps, KeyClock
from rules.text import CLIP, clipped

__all__ = [
    "CLIP",
    "DAWN",
    "LONGEST_WINDOW",
    "MOST_CONDITIONS",
    "MOST_EVENTS",
    "ClockSteps",
    "ConditionClock",
    "EventWindow",
    "KeyClock",
    "Report",
]

MOST_EVENTS = 256
LONGEST_WINDOW = timedelta(hours=24)
DAWN = datetime.min.replace(tzinfo=UTC)
"""Before every window."""


class EventWindow:
    """The latest Events of one node.

    An aggregated Event counts as often as it says; the same watch message again counts nothing.
    What there is no room for is merged into what is alike, or else remembered as occurrences of
    nobody knows what: it may make an answer unknown, never false.
    """

    def __init__(self) -> None:
        self._events: deque[EventFact] = deque()
        self._forgotten: EventFact | None = None
        self._counted: OrderedDict[str, tuple[int, datetime]] = OrderedDict()
        """Uid of an Event to its count and its last time, those last heard of at the end."""
        self._dropped: datetime | None = None
        """The latest time of an Event whose uid is no longer known."""

    def hear(
        self,
        uid: str,
        *,
        reason: str,
        message: str,
        source: str,
        severity: str,
        count: int,
        at: datetime,
        first: datetime | None = None,
        now: datetime | None = None,
    ) -> bool:
        """Whether the Event with this uid has occurred since it was last heard of.

        at, first  its last and first occurrence; without `first` only the last is certain
        now        given, an occurrence that its reporter's clock puts after it was at `now`
        """
        if now is not None:
            at, first = min(at, now), min(first, now) if first is not None else None
        before, last = self._counted.pop(uid, (0, None))
        self._know(uid, max(count, before), at if last is None else max(at, last))
        if count <= before:
            return False
        fact = EventFact(
            clipped(reason),
            clipped(message),
            source,
            severity,
            count - before,
            at,
            last or first or DAWN,
        )
        if last is None and self._dropped is not None:
            if at <= self._dropped:
                self._forget(fact)  # perhaps counted before it was forgotten
                return True
            if first is None or first <= self._dropped:
                fact = replace(fact, first=DAWN)
        if fact.count == 1 or (fact.first is not None and fact.first >= at):
            fact = replace(fact, first=None)
        self._events.append(fact)
        while len(self._events) > MOST_EVENTS:
            self._merge(self._events.popleft())
        return True

    def facts(self, now: datetime) -> Sequence[EventFact]:
        """What no window has outlived; nothing is from the future."""
        while self._events and self._events[0].at <= now - LONGEST_WINDOW:
            self._events.popleft()
        lost = self._forgotten
        recent = lost is not None and lost.at > now - LONGEST_WINDOW
        found = [lost, *self._events] if lost is not None and recent else [*self._events]
        return tuple(e if e.at <= now else replace(e, at=now) for e in found)

    def stepped(self, now: datetime) -> None:
        """Our wall clock was set and is `now`: what would lie in the future was at `now`."""
        self._events = deque(_not_after(event, now) for event in self._events)
        if self._forgotten is not None:
            self._forgotten = _not_after(self._forgotten, now)

    def _know(self, uid: str, count: int, at: datetime) -> None:
        self._counted[uid] = count, at
        while len(self._counted) > MOST_EVENTS:
            _, (_, last) = self._counted.popitem(last=False)
            self._dropped = last if self._dropped is None else max(last, self._dropped)

    def _merge(self, old: EventFact) -> None:
        """Into the next one like it, if there is one."""
        for n, event in enumerate(self._events):
            if _kind(event) == _kind(old):
                first = min(old.first or old.at, event.first or event.at)
                at, count = max(old.at, event.at), old.count + event.count
                self._events[n] = replace(event, count=count, first=first, at=at)
                return
        self._forget(old)

    def _forget(self, old: EventFact) -> None:
        count, at = old.count, old.at
        if self._forgotten is not None and self._forgotten.at > at - LONGEST_WINDOW:
            count, at = count + self._forgotten.count, max(at, self._forgotten.at)
        self._forgotten = EventFact("", "", "", "", count, at, forgotten=True)


def _kind(event: EventFact) -> tuple[str, str, str, str]:
    return event.reason, event.message, event.source, event.severity


def _not_after(event: EventFact, now: datetime) -> EventFact:
    if event.at <= now:
        return event
    first = min(event.first, now) if event.first is not None else None
    return replace(event, at=now, first=first)
