"""Called holders, for whom slots are kept, and kinds of holders that do not respond to calls."""

from collections.abc import Iterator
from datetime import datetime

from defender.decision.queue.entry import Key, QueueEntry
from defender.decision.queue.times import QueueTimes

DEAF = 3
"""Consecutive calls without response after which a kind of holder counts as not listening."""
MOST_CALLED = 256
"""Greatest number of holders that are called at once."""
MOST_KINDS = 64
"""Greatest number of kinds to track."""


class QueueCalls:
    """The calls."""

    def __init__(self, times: QueueTimes) -> None:
        self._times = times
        self._at: dict[Key, datetime] = {}
        self._deaf: dict[str, tuple[int, datetime]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._at

    def call(self, entry: QueueEntry, now: datetime) -> None:
        self._at[entry.key] = now

    def can_call(self, entry: QueueEntry, now: datetime) -> bool:
        """Return whether the entry may be called. One that missed a call must first ask by
        itself.
        """
        if entry.missed or entry.key in self._at or len(self._at) >= MOST_CALLED:
            return False
        missed, last = self._deaf.get(entry.ask.holder.kind, (0, now))
        return missed < DEAF or not last <= now < last + self._times.deaf

    def came(self, key: Key) -> None:
        """Record that the holder asked, whether it was called or not."""
        if self._at.pop(key, None) is not None:
            self._deaf.pop(key[0], None)

    def gone(self, key: Key) -> None:
        self._at.pop(key, None)

    def record_listener(self) -> None:
        """Record that a new listener is connected."""
        self._deaf.clear()

    def expire_calls(self, now: datetime) -> list[Key]:
        """Return called holders that did not ask in time, and keep their slots no longer.

        After the clock was set back no slot is kept either.
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
        """Return when the first call expires, None without calls."""
        return min(self._at.values()) + self._times.grace if self._at else None
