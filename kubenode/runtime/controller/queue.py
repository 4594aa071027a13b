"""A set of keys, each handed to one worker at a time.

A key that is added while a worker has it is handed out again afterwards, never twice at once. So no
change is lost, and no two reconciles of one node run at once.

A change makes a failed key due earlier, but within bounds: a reconcile that writes its own status
and then fails causes a change, and would trigger itself without end. From the second failure in a
row a change waits for the backoff, at most HURRIED seconds.
"""

import asyncio
import heapq
import random
from collections.abc import Hashable
from typing import Generic, TypeVar

from kubenode.runtime.clock import Clock, SystemClock, wait
from kubenode.runtime.rate import Spread, TokenBucket

K = TypeVar("K", bound=Hashable)

RETRY_LOW = 0.5
RETRY_HIGH = 300.0
HURRIED = 5.0
"""Longest time, in seconds, for which a change waits after repeated failures of its key."""
RATE = 1000.0
BURST = 10_000.0
MOST_OUTDATED = 1000
"""Outdated entries that the heap may hold beyond twice the planned keys, before it is rebuilt."""
NEWS_FIRST = 16
"""Number of changed keys that are handed out before one key that a resync has added."""


class WorkQueue(Generic[K]):
    """Keys that are due, keys that workers have, and keys for later.

    low, high: seconds of the backoff of a key: low, 2 low ... high, each ± 20 %
    rate, burst: limit of keys handed out per second, so that a storm does not reach the API server
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        low: float = RETRY_LOW,
        high: float = RETRY_HIGH,
        rate: float = RATE,
        burst: float = BURST,
        spread: Spread = random.random,
    ) -> None:
        self._clock = clock or SystemClock()
        self._low, self._high, self._spread = low, high, spread
        self._bucket = TokenBucket(rate, burst, self._clock)
        self._ready: dict[K, float] = {}  # key: when it became due; a dict is ordered
        self._idle: dict[K, float] = {}  # likewise, for keys of a resync
        self._passed = 0  # changed keys handed out since the last one of a resync
        self._busy: set[K] = set()
        self._again: dict[K, float] = {}  # changed while busy
        self._failures: dict[K, int] = {}
        self._not_before: dict[K, float] = {}  # when a change may hand out a key that failed
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []  # may hold outdated entries; _due decides
        self._pushed = 0  # breaks ties, as keys need not be ordered
        self._some = asyncio.Event()
        self._earlier = asyncio.Event()
        self.retries = 0

    def __len__(self) -> int:
        """Return the number of due keys that wait for a worker."""
        return len(self._ready) + len(self._idle)

    @property
    def news(self) -> int:
        """Return how many due keys have changed; the others come from a resync."""
        return len(self._ready)

    @property
    def later(self) -> int:
        """Return the number of keys that are planned for a later time."""
        return len(self._due)

    @property
    def busy(self) -> int:
        return len(self._busy)

    def oldest(self) -> float:
        """Return the seconds that the oldest due key has waited, 0 if none waits."""
        firsts = [next(iter(lane.values())) for lane in (self._ready, self._idle) if lane]
        return self._clock.monotonic() - min(firsts) if firsts else 0.0

    def failures(self, key: K) -> int:
        """Return the retries of `key` since the last `forget`."""
        return self._failures.get(key, 0)

    def add(self, key: K) -> None:
        """Hand out `key` as soon as a worker is free, and drop its later plan.

        After repeated failures the change waits as `retry` describes.
        """
        now = self._clock.monotonic()
        if key in self._busy:
            self._due.pop(key, None)
            self._again.setdefault(key, now)
        elif (at := self._not_before.get(key, now)) > now:
            self._plan(key, at)
        elif key not in self._ready:
            self._due.pop(key, None)
            self._idle.pop(key, None)
            self._ready[key] = now
            self._some.set()

    def add_idle(self, key: K) -> None:
        """Hand out an unchanged key, as a resync does, after the keys that have changed."""
        now = self._clock.monotonic()
        if key in self._busy:
            self._again.setdefault(key, now)
        elif (at := self._not_before.get(key, now)) > now:
            self._plan(key, at)
        elif key not in self._ready and key not in self._idle:
            self._idle[key] = now
            self._some.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Hand out `key` in `seconds`. The earliest of several requests for one key counts."""
        if seconds <= 0:
            self.add(key)
            return
        if key in self._ready or key in self._again:
            return  # due already, which is earlier
        self._plan(key, self._clock.monotonic() + seconds)

    def _plan(self, key: K, at: float) -> None:
        """Hand out `key` at the monotonic time `at`, unless it is due earlier."""
        if self._due.get(key, float("inf")) <= at:
            return
        self._due[key] = at
        self._pushed += 1
        if len(self._heap) > 2 * len(self._due) + MOST_OUTDATED:
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (at, self._pushed, key))
        if self._heap[0][2] == key:
            self._earlier.set()

    def retry(self, key: K, at_least: float = 0.0) -> float:
        """Hand out `key` after its backoff, or `at_least` seconds, and return the delay in seconds.

        A change makes it due earlier: at once after the first failure in a row, later after HURRIED
        seconds, and never before `at_least`.
        """
        self.retries += 1
        delay = self._failed(key, at_least)
        self._plan(key, self._clock.monotonic() + delay)
        return delay

    def wait_for_change(self, key: K) -> None:
        """Count a failure that only a change can fix: the key is not planned again."""
        self._failed(key, 0.0)

    def _failed(self, key: K, at_least: float) -> float:
        """Count a failure, bound how soon a change hands out the key; return the backoff."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(self._high, self._low * 2 ** min(failures, 30))
        delay = float(max(at_least, delay * (0.8 + 0.4 * self._spread())))
        hurried = max(at_least, min(delay, HURRIED) if failures else 0.0)
        self._not_before[key] = self._clock.monotonic() + hurried
        return delay

    def forget(self, key: K) -> None:
        """Reset the failures of `key` after a success: its next failure gets the shortest delay."""
        self._failures.pop(key, None)
        self._not_before.pop(key, None)

    async def get(self) -> K:
        """Return the next key. Its worker has it until `done(key)`."""
        await self._bucket.take()
        while not self._ready and not self._idle:
            self._some.clear()
            await self._some.wait()
        lane = self._next_lane()
        key = next(iter(lane))
        del lane[key]
        self._busy.add(key)
        return key

    def _next_lane(self) -> dict[K, float]:
        self._passed += 1
        if self._ready and (not self._idle or self._passed <= NEWS_FIRST):
            return self._ready
        self._passed = 0
        return self._idle

    def done(self, key: K) -> None:
        self._busy.discard(key)
        if (since := self._again.pop(key, None)) is None:
            return
        now = self._clock.monotonic()
        if (at := self._not_before.get(key, now)) > now:
            self._plan(key, at)
            return
        self._due.pop(key, None)
        self._ready[key] = since
        self._some.set()

    def promote(self) -> float | None:
        """Move the planned keys that are due; return the seconds until the next one, or None."""
        now = self._clock.monotonic()
        while self._heap:
            at, _, key = self._heap[0]
            if self._due.get(key) != at:
                heapq.heappop(self._heap)  # outdated: planned earlier, or added since
            elif at <= now:
                heapq.heappop(self._heap)
                del self._due[key]
                self.add(key)
            else:
                return at - now
        return None

    async def run(self) -> None:
        """Hand out planned keys in time, until cancelled."""
        while True:
            self._earlier.clear()
            await wait(self._clock, self._earlier, self.promote())
