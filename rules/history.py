"""What must be remembered of a node to know since when, and how often. Bounded per node.

Times are the caller's: a detector's clock only ever makes a fault look younger, never older.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from rules.facts import ConditionFact, EventFact

MOST_CONDITIONS = 128
MOST_EVENTS = 256
LONGEST_WINDOW = timedelta(hours=24)
DAWN = datetime.min.replace(tzinfo=UTC)
"""Before every window."""
CLIP = 1024
"""Characters kept of a reason or message: regular expressions read no more."""


class ConditionClock:
    """Since when each condition of one node has its status.

    A change of reason, message or heartbeat moves nothing. At first sight (also after our restart)
    the time counts from the reporter's lastTransitionTime, and never from earlier; afterwards from
    the moment at which we saw the status change.
    """

    def __init__(self) -> None:
        self._facts: dict[str, ConditionFact] = {}

    def hear(
        self,
        type_: str,
        *,
        status: str,
        reason: str,
        message: str,
        transition: datetime | None,
        heard: datetime,
        now: datetime,
    ) -> None:
        """Take in a report. `heard` is the reporter's heartbeat, at most `now`."""
        known = self._facts.get(type_)
        reason, message = reason[:CLIP], message[:CLIP]
        if known is None:
            if len(self._facts) >= MOST_CONDITIONS:
                return
            since = min(transition or now, now)
        elif known.status == status:
            since, heard = known.since, max(known.heard, heard)
        else:
            since, heard = now, max(known.heard, heard)
        self._facts[type_] = ConditionFact(type_, status, reason, message, since, heard)

    def facts(self) -> Mapping[str, ConditionFact]:
        """A copy, so that a FactSet does not change under its reader."""
        return dict(self._facts)


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
    ) -> bool:
        """Whether the Event with this uid has occurred since it was last heard of.

        at, first  its last and first occurrence; without `first` only the last is certain
        """
        before, last = self._counted.pop(uid, (0, None))
        self._know(uid, max(count, before), at if last is None else max(at, last))
        if count <= before:
            return False
        fact = EventFact(
            reason[:CLIP],
            message[:CLIP],
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
