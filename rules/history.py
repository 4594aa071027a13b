"""Remembers which Events occurred on a node, and how often. Bounded for each node.

All times are the caller's. rules.condition_clock has the times of conditions, rules.since those of
labels, annotations and taints.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from kubenode.api.v1alpha1.noderecord import MOST_PAST_EVENTS, REMEMBERED
from rules.condition_clock import MOST_CONDITIONS, ConditionClock, ConditionReading
from rules.facts import EventFact
from rules.since import ClockSteps, KeyClock
from rules.text import CLIP, clipped

__all__ = [
    "CLIP",
    "DAWN",
    "LONGEST_WINDOW",
    "MOST_CONDITIONS",
    "MOST_EVENTS",
    "RECENT_SPAN",
    "ClockSteps",
    "ConditionClock",
    "ConditionReading",
    "EventWindow",
    "KeyClock",
    "LastingEvents",
]

MOST_EVENTS = 256
RECENT_SPAN = timedelta(hours=24)
"""Time for which every Event is remembered, in this process only."""
LONGEST_WINDOW = REMEMBERED
"""Time for which an Event is remembered that a rule counts in a window of over a day."""
DAWN = datetime.min.replace(tzinfo=UTC)
"""An instant before every window."""

Counted = tuple[int, datetime]
"""Number of an Event's occurrences in its last report, and the time of the last one."""


def never(event: EventFact) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class LastingEvents:
    """State for windows of over a day, which outlives this process.

    counted: UID of an Event to its number of occurrences, least recently reported first
    dropped: latest time of an Event that was dropped from `counted`
    """

    events: Sequence[EventFact] = ()
    counted: Sequence[tuple[str, Counted]] = ()
    dropped: datetime | None = None


class _Occurrences:
    """Events of one span of time, oldest first, at most `most`.

    An Event for which there is no room is merged into a similar one, or else stored as occurrences
    of an unknown Event. That may make an answer unknown, never false.
    """

    __slots__ = ("_about_pods", "_events", "_forgotten", "_length", "_most")

    def __init__(self, length: timedelta, most: int, about_pods: bool = False) -> None:
        self._length, self._most, self._about_pods = length, most, about_pods
        self._events: deque[EventFact] = deque()
        self._forgotten: EventFact | None = None

    def add(self, fact: EventFact) -> None:
        self._events.append(fact)
        while len(self._events) > self._most:
            self._merge(self._events.popleft())

    def take_out(self, which: Callable[[EventFact], bool]) -> Sequence[EventFact]:
        removed = [event for event in self._events if which(event)]
        if removed:
            self._events = deque(event for event in self._events if not which(event))
        return removed

    def facts(self, now: datetime) -> list[EventFact]:
        """Return the Events of the span. Times in the future become `now`."""
        while self._events and self._events[0].at <= now - self._length:
            self._events.popleft()
        lost = self._forgotten
        recent = lost is not None and lost.at > now - self._length
        events = [lost, *self._events] if lost is not None and recent else [*self._events]
        return [e if e.at <= now else replace(e, at=now) for e in events]

    def stepped(self, now: datetime) -> None:
        self._events = deque(_not_after(event, now) for event in self._events)
        if self._forgotten is not None:
            self._forgotten = _not_after(self._forgotten, now)

    def forget(self, old: EventFact) -> None:
        count, at = old.count, old.at
        if self._forgotten is not None and self._forgotten.at > at - self._length:
            count, at = count + self._forgotten.count, max(at, self._forgotten.at)
        self._forgotten = EventFact(
            "", "", "", "", count, at, forgotten=True, about_pod=self._about_pods
        )

    def _merge(self, old: EventFact) -> None:
        """Merge an Event into the next similar one; without one, count it as forgotten."""
        for n, event in enumerate(self._events):
            if _kind(event) == _kind(old):
                first = min(old.first or old.at, event.first or event.at)
                at, count = max(old.at, event.at), old.count + event.count
                self._events[n] = replace(
                    event, count=count, first=first, at=at, uid="", reported_count=0
                )
                return
        self.forget(old)


class _Counts:
    """Number of occurrences in the last report of each Event, for at most `most` Events."""

    __slots__ = ("_counted", "_most", "dropped")

    def __init__(self, most: int) -> None:
        self._most = most
        self._counted: OrderedDict[str, Counted] = OrderedDict()
        self.dropped: datetime | None = None
        """Latest time of an Event that was dropped."""

    def get(self, uid: str) -> Counted | None:
        return self._counted.get(uid)

    @property
    def known(self) -> bool:
        return bool(self._counted) or self.dropped is not None

    def items(self) -> Iterable[tuple[str, Counted]]:
        return self._counted.items()

    def put(self, uid: str, count: int, at: datetime) -> None:
        self._counted[uid] = count, at
        self._counted.move_to_end(uid)
        while len(self._counted) > self._most:
            _, (_, last) = self._counted.popitem(last=False)
            self.dropped = last if self.dropped is None else max(last, self.dropped)


class EventWindow:
    """Recent Events of one node: all of a day, and for LONGEST_WINDOW those that last.

    An aggregated Event counts as often as it says. A repeated watch message counts nothing.

    lasts: returns whether a rule counts such an Event in a window of over a day
    about_pods: True for the kubelet's Events about pods of the node, False for all others
    """

    __slots__ = ("_about_pods", "_counts", "_day", "_lasting", "_lasting_counts", "_lasts")

    def __init__(
        self, lasts: Callable[[EventFact], bool] = never, *, about_pods: bool = False
    ) -> None:
        self._lasts, self._about_pods = lasts, about_pods
        self._day = _Occurrences(RECENT_SPAN, MOST_EVENTS, about_pods)
        self._counts = _Counts(MOST_EVENTS)
        self._lasting: _Occurrences | None = None
        self._lasting_counts: _Counts | None = None

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
        """Take a report of an Event; return whether it has occurred since its last report.

        at, first: last and first occurrence; without `first` only the last one is certain
        now: if given, later times of the reporter's clock are reduced to it
        """
        if now is not None:
            at, first = min(at, now), min(first, now) if first is not None else None
        at = _as_stored(at)
        long = self._lasting_counts.get(uid) if self._lasting_counts is not None else None
        before, last = long or self._counts.get(uid) or (0, None)
        counted = max(count, before), at if last is None else max(at, last)
        self._counts.put(uid, *counted)
        if long is not None and self._lasting_counts is not None:
            self._lasting_counts.put(uid, *counted)
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
            uid=uid,
            reported_count=count,
            about_pod=self._about_pods,
        )
        lasts = self._lasts(fact)
        into, counts = self._of(lasts)
        if lasts:
            counts.put(uid, *counted)
        if last is None and counts.dropped is not None:
            if at <= counts.dropped:
                into.forget(fact)  # it may have been counted before it was dropped
                return True
            if first is None or first <= counts.dropped:
                fact = replace(fact, first=DAWN)
        if fact.count == 1 or (fact.first is not None and fact.first >= at):
            fact = replace(fact, first=None)
        into.add(fact)
        return True

    def facts(self, now: datetime) -> Sequence[EventFact]:
        """Return the Events of all windows, oldest first. Times in the future become `now`."""
        events = self._day.facts(now)
        if self._lasting is not None and (lasting := self._lasting.facts(now)):
            events = sorted([*lasting, *events], key=lambda event: event.at)
        return tuple(events)

    def stepped(self, now: datetime) -> None:
        """Reduce times to `now` after the local wall clock was set."""
        self._day.stepped(now)
        if self._lasting is not None:
            self._lasting.stepped(now)

    def drop(self, which: Callable[[EventFact], bool]) -> None:
        """Drop Events of the last day that no rule reads."""
        self._day.take_out(which)

    # -- windows of over a day -------------------------------------------------------------------

    def sort_out(self) -> None:
        """Move Events of the last day to the long window, after rules were loaded that count
        them there.
        """
        for event in self._day.take_out(self._lasts):
            into, counts = self._of(True)
            before, _ = counts.get(event.uid) or (0, None)
            if event.reported_count and event.reported_count <= before:
                continue  # it is stored already
            if event.reported_count:
                fresh = min(event.count, event.reported_count - before)
                into.add(replace(event, count=fresh, first=event.first if fresh > 1 else None))
                counts.put(event.uid, event.reported_count, event.at)
            elif counts.known:
                into.forget(event)  # several Events, some of which may be stored already
            else:
                into.add(event)

    def lasting(self, now: datetime) -> LastingEvents | None:
        """Return the state to store; None if there is none."""
        if self._lasting is None or self._lasting_counts is None:
            return None
        events, counts = self._lasting.facts(now), self._lasting_counts
        if not events:
            return None
        return LastingEvents(tuple(events), tuple(counts.items()), counts.dropped)

    def recall(self, stored: LastingEvents) -> None:
        """Restore the state that the last leader stored; `sort_out` adds this process's own
        Events.
        """
        self._lasting = self._lasting_counts = None
        into, counts = self._of(True)
        for event in stored.events:
            into.forget(event) if event.forgotten else into.add(event)
        for uid, counted in stored.counted:
            counts.put(uid, *counted)
        counts.dropped = stored.dropped

    def forget_lasting(self) -> None:
        """Drop the long window, because a person deleted the node's history."""
        self._lasting = None

    def _of(self, lasts: bool) -> tuple[_Occurrences, _Counts]:
        if not lasts:
            return self._day, self._counts
        if self._lasting is None:
            self._lasting = _Occurrences(LONGEST_WINDOW, MOST_PAST_EVENTS)
        if self._lasting_counts is None:
            self._lasting_counts = _Counts(MOST_PAST_EVENTS)
        return self._lasting, self._lasting_counts


def _as_stored(at: datetime) -> datetime:
    """Round down to milliseconds as in the stored form, so that stamps are equal after a
    restart.
    """
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def _kind(event: EventFact) -> tuple[str, str, str, str]:
    return event.reason, event.message, event.source, event.severity


def _not_after(event: EventFact, now: datetime) -> EventFact:
    if event.at <= now:
        return event
    first = min(event.first, now) if event.first is not None else None
    return replace(event, at=now, first=first)
