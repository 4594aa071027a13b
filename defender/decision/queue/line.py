"""Waiting requests in order, in a lane for each thing that is waited for."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from heapq import heapify, heappop, heappush

from defender.decision.queue.entry import DUE, Key, LaneKey, QueueEntry, SortKey
from defender.decision.queue.lane import Lane, Rank, ZoneRotation

MOST_WAITING = 20_000
MOST_PER_CLIENT = MOST_WAITING // 2
"""Greatest number of requests of one user; the rest of the queue stays free for others."""


class QueueLine:
    """The waiting requests."""

    def __init__(self) -> None:
        self.turns = ZoneRotation()
        self._entries: dict[Key, QueueEntry] = {}
        self._sorted: dict[Key, tuple[LaneKey, SortKey]] = {}
        self._lanes: dict[LaneKey, Lane] = {}
        self._of_scope: dict[str, set[LaneKey]] = {}
        self._patient: list[tuple[datetime, Key]] = []
        self._of_user: Counter[str | None] = Counter()
        self._user_of: dict[Key, str | None] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[QueueEntry]:
        return iter(self._entries.values())

    def is_full_for(self, user: str | None) -> bool:
        """Return whether a request of this user finds no place. None: this process, which has no
        share.
        """
        if len(self._entries) >= MOST_WAITING:
            return True
        return user is not None and self._of_user[user] >= MOST_PER_CLIENT

    def get(self, key: Key) -> QueueEntry | None:
        return self._entries.get(key)

    def put(self, entry: QueueEntry, now: datetime) -> Lane:
        """Put the request where it belongs now, perhaps in another lane or band, and return its
        lane.
        """
        key, wanted = entry.key, (entry.lane, entry.sort_key(now))
        self._count(self._entries.get(key), entry)
        self._entries[key] = entry
        if self._sorted.get(key) == wanted:
            return self._lanes[entry.lane]
        self._take_out(entry)
        lane_key, sort_key = wanted
        lane = self._lanes.get(lane_key)
        if lane is None:
            lane = self._lanes[lane_key] = Lane()
            self._of_scope.setdefault(entry.scope, set()).add(lane_key)
        lane.add(entry.zone, sort_key)
        self._sorted[key] = wanted
        if sort_key[0] != DUE:
            self._wait_for_patience(entry)
        return lane

    def forget(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._count(entry, None)
            self._take_out(entry)

    def _count(self, old: QueueEntry | None, new: QueueEntry | None) -> None:
        if old is not None:
            user = self._user_of.pop(old.key)
            self._of_user[user] -= 1
            if not self._of_user[user]:
                del self._of_user[user]
        if new is not None:
            self._user_of[new.key] = new.ask.holder.user
            self._of_user[new.ask.holder.user] += 1

    def _take_out(self, entry: QueueEntry) -> None:
        place = self._sorted.pop(entry.key, None)
        if place is None:
            return
        lane_key, sort_key = place
        lane = self._lanes[lane_key]
        lane.remove(entry.zone, sort_key)
        if len(lane):
            return
        del self._lanes[lane_key]
        lanes = self._of_scope[lane_key[1]]
        lanes.discard(lane_key)
        if not lanes:
            del self._of_scope[lane_key[1]]

    def _wait_for_patience(self, entry: QueueEntry) -> None:
        heappush(self._patient, (entry.due, entry.key))
        if len(self._patient) > 4 * MOST_WAITING:
            self._patient = [(each.due, each.key) for each in self]
            heapify(self._patient)

    def advance(self, now: datetime) -> None:
        """Move requests that have waited for PATIENCE to the first band."""
        while self._patient and self._patient[0][0] <= now:
            entry = self._entries.get(heappop(self._patient)[1])
            if entry is not None:
                self.put(entry, now)

    # -- reading ------------------------------------------------------------------------------

    def lane(self, key: LaneKey) -> Lane | None:
        return self._lanes.get(key)

    @property
    def lanes(self) -> Iterable[LaneKey]:
        return self._lanes.keys()

    def lanes_of(self, scope: str) -> Iterable[LaneKey]:
        return self._of_scope.get(scope, ())

    def first(
        self, lane_keys: Iterable[LaneKey], may: Callable[[Key], bool]
    ) -> tuple[QueueEntry | None, list[LaneKey]]:
        """Return the best placed request of these lanes that may be called, and the lanes without
        any.
        """
        best: Rank | None = None
        empty: list[LaneKey] = []
        for lane_key in lane_keys:
            lane = self._lanes.get(lane_key)
            rank = lane.first(self.turns, may) if lane is not None else None
            if rank is None:
                empty.append(lane_key)
            elif best is None or rank < best:
                best = rank
        return (None if best is None else self._entries[best[4]]), empty

    def ahead(self, entry: QueueEntry, now: datetime | None = None) -> int:
        """Return how many requests of its lane come before it. `now` is needed if it is not in
        line.
        """
        known = self._sorted.get(entry.key)
        if known is not None:
            lane_key, sort_key = known
        else:
            assert now is not None
            lane_key, sort_key = entry.lane, entry.sort_key(now)
        lane = self._lanes.get(lane_key)
        return lane.ahead(entry.zone, sort_key, self.turns) if lane is not None else 0

    def in_order(self) -> list[QueueEntry]:
        """Return all requests, by rank over all lanes."""
        ranked = (rank for lane in self._lanes.values() for rank in lane.ranked(self.turns))
        return [self._entries[rank[4]] for rank in sorted(ranked)]

    def counts(self) -> dict[tuple[str, str], int]:
        """Return the number of waiting requests by reason and scope."""
        totals: Counter[tuple[str, str]] = Counter()
        for (reason, scope, *_), lane in self._lanes.items():
            totals[reason, scope] += len(lane)
        return dict(totals)
