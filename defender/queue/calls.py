"""For whom a slot is kept at the moment, and who does not hear when called."""

from collections.abc import Iterator
from datetime import datetime

from defender.queue.entry import Key, QueueEntry
from defender.queue.times import QueueTimes

DEAF = 3
"""Calls in a row that no holder of a kind heeded: that kind does not listen."""
MOST_CALLED = 256
MOST_KINDS = 64


class QueueCalls:
    def __init__(self, times: QueueTimes) -> None:
        self._times = times
        self._at: dict[Key, datetime] = {}
        self._deaf: dict[str, tuple[int, datetime]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._at

    def call(self, entry: QueueEntry, now: datetime) -> None:
        self._at[entry.key] = now

    def can_call(self, entry: QueueEntry, now: datetime) -> bool:
        """Whoever missed a call is not called again before it asked by itself."""
        if entry.missed or entry.key in self._at or len(self._at) >= MOST_CALLED:
            return False
        missed, last = self._deaf.get(entry.ask.holder.kind, (0, now))
        return missed < DEAF or not last <= now < last + self._times.deaf

    def came(self, key: Key) -> None:
        """It asked, called or not."""
        if self._at.pop(key, None) is not None:
            self._deaf.pop(key[0], None)

    def gone(self, key: Key) -> None:
        self._at.pop(key, None)

    def heard(self) -> None:
        """Somebody new listens."""
        self._deaf.clear()

    def over(self, now: datetime) -> list[Key]:
        """Who was called and did not come; the slot is kept no longer. A clock that was set back
        keeps none either.
        """
        missed = [key for key, at in self._at.items() if not at <= now < at + self._times.grace]
        for key in missed:
            del self._at[key]
            if key[0] in self._deaf or len(self._deaf) < MOST_KINDS:
                self._deaf[key[0]] = self._deaf.get(key[0], (0, now))[0] + 1, now
        return missed

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._at))

    def next_at(self) -> datetime | None:
        """When the first call is over."""
        return min(self._at.values()) + self._times.grace if self._at else None
