"""Those who wait for the same thing, in order, with rounds over the zones they are in.

Start-time fair queueing: each zone has a turn, the number of the round in which its first is
served; the one behind it is served a round later. A zone that was just served moves to the next
round, one that had nobody waiting joins the present round. So of a zone with a thousand faults and
one with a single fault, the single one is never behind more than one of the thousand.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from defender.queue.entry import DUE, Key, SortKey

MOST_ZONES = 4096
NOWHERE = float("-inf")
Rank = SortKey
"""With the round in place of the time in all bands but the first."""


class ZoneRotation:
    """Which zone was served last, over all lanes."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._now = 0

    def of(self, zone: str) -> int:
        """The round in which the zone's first is served."""
        return max(self._next.get(zone, 0), self._now)

    def served(self, zone: str) -> None:
        self._now = self.of(zone)
        self._next[zone] = self._now + 1
        if len(self._next) > MOST_ZONES:
            self._next = {z: at for z, at in self._next.items() if at > self._now}


class Lane:
    """Sort keys by zone. `retry_at`: when to see whether the first may go, without other news."""

    def __init__(self) -> None:
        self.retry_at: datetime | None = None
        self._zones: dict[str, list[SortKey]] = {}
        self._size = 0
        self._served_at: datetime | None = None
        self.interval: timedelta | None = None
        """Between two that were served, smoothed."""

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
        """The rank of the best placed of those who may be called."""
        found = (self._first_of(zone, turns, may) for zone in self._zones)
        return min((rank for rank in found if rank is not None), default=None)

    def _first_of(self, zone: str, turns: ZoneRotation, may: Callable[[Key], bool]) -> Rank | None:
        waiting = self._zones[zone]
        for index, key in enumerate(waiting):
            if may(key[4]):
                return _rank(waiting, index, turns.of(zone))
        return None

    def ahead(self, zone: str, key: SortKey, turns: ZoneRotation) -> int:
        """How many are better placed than this one, which may wait here or only be about to."""
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
    """How many of one zone come before a rank."""
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
