"""Requests that wait for the same, in order, with rounds over their zones.

This is start-time fair queueing. The turn of a zone is the number of the round in which its first
request is served; the next one is served a round later. A zone that was served moves to the next
round, and one without waiting requests joins the present round. So a single fault in one zone is
never behind more than one of a thousand faults in another.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from defender.decision.queue.entry import DUE, Key, SortKey

MOST_ZONES = 4096
NOWHERE = float("-inf")
Rank = SortKey
"""A sort key with the round in place of the time, in all bands but the first."""


class ZoneRotation:
    """Rounds of zones, over all lanes."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._now = 0

    def of(self, zone: str) -> int:
        """Return the round in which the zone's first request is served."""
        return max(self._next.get(zone, 0), self._now)

    def served(self, zone: str) -> None:
        self._now = self.of(zone)
        self._next[zone] = self._now + 1
        if len(self._next) > MOST_ZONES:
            self._next = {z: at for z, at in self._next.items() if at > self._now}


class Lane:
    """Sort keys by zone. `retry_at`: when to try the first again without other news."""

    def __init__(self) -> None:
        self.retry_at: datetime | None = None
        self._zones: dict[str, list[SortKey]] = {}
        self._size = 0
        self._served_at: datetime | None = None
        self.interval: timedelta | None = None
        """Smoothed time between two grants, None before there are two."""

    def __len__(self) -> int:
        return self._size

    def add(self, zone: str, key: SortKey) -> None:
        insort(self._zones.setdefault(zone, []), key)
        self._size += 1

    def remove(self, zone: str, key: SortKey) -> None:
        waiting = self._zones[zone]
        at = bisect_left(waiting, key)
        assert waiting[at] == key
        del waiting[at]
        self._size -= 1
        if not waiting:
            del self._zones[zone]

    def served(self, now: datetime) -> None:
        if self._served_at is not None:
            took = max(timedelta(0), now - self._served_at)
            self.interval = took if self.interval is None else 0.8 * self.interval + 0.2 * took
        self._served_at = now

    def first(self, turns: ZoneRotation, may: Callable[[Key], bool]) -> Rank | None:
        """Return the rank of the best placed request that may be called, None for none."""
        ranks = (self._first_of(zone, turns, may) for zone in self._zones)
        return min((rank for rank in ranks if rank is not None), default=None)

    def _first_of(self, zone: str, turns: ZoneRotation, may: Callable[[Key], bool]) -> Rank | None:
        waiting = self._zones[zone]
        for index, key in enumerate(waiting):
            if may(key[4]):
                return _rank(waiting, index, turns.of(zone))
        return None

    def ahead(self, zone: str, key: SortKey, turns: ZoneRotation) -> int:
        """Return how many requests are better placed than this one, which need not be in the
        lane.
        """
        mine = self._zones.get(zone, [])
        rank = _rank(mine, bisect_left(mine, key), turns.of(zone), key)
        return sum(_before(each, rank, turns.of(name)) for name, each in self._zones.items())

    def ranked(self, turns: ZoneRotation) -> Iterator[Rank]:
        for zone, waiting in self._zones.items():
            turn = turns.of(zone)
            for index in range(len(waiting)):
                yield _rank(waiting, index, turn)


def _rank(waiting: list[SortKey], index: int, turn: int, key: SortKey | None = None) -> Rank:
    band, due, age, since, name = key or waiting[index]
    at = due if band == DUE else turn + index - _start(waiting, band)
    return band, at, age, since, name


def _start(waiting: list[SortKey], band: int) -> int:
    return bisect_left(waiting, (band, NOWHERE, NOWHERE, NOWHERE, ("", "", "")))


def _before(waiting: list[SortKey], rank: Rank, turn: int) -> int:
    """Return how many requests of one zone come before the rank."""
    band, at = rank[:2]
    if band == DUE:
        return bisect_left(waiting, rank)
    start, end = _start(waiting, band), _start(waiting, band + 1)
    same_round = start + int(at) - turn
    if same_round >= end:
        return end
    if same_round < start:
        return start
    return same_round + (waiting[same_round][2:] < rank[2:])
