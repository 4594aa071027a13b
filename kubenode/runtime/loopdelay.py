"""Detects when our own event loop was late, by a task that runs twice a second.

A process that is starved of CPU, stopped, or swapped out reads nothing, and messages wait in its
sockets. When it goes on, all senders seem to have been silent. So it counts as late until its loop
turns in time again and the waiting messages have been read.
"""

import logging
from collections import deque
from collections.abc import Sequence

from kubenode.runtime.clock import Clock

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
LATE_SECONDS = 3.0
"""Delay from which the loop is late. Some work on it takes a second now and then."""
MOST_DELAYS = 16

NEVER = float("-inf")
Span = tuple[float, float]


class LoopDelay:
    """A Part. Times are monotonic seconds. Before it runs, the loop counts as never late."""

    name = "loop delay"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turned: float | None = None
        self._late_since: float | None = None
        self._caught_up = NEVER
        self._delays: deque[Span] = deque(maxlen=MOST_DELAYS)

    async def run(self) -> None:
        self._turned = self._clock.monotonic()
        while True:
            await self._clock.sleep(TICK_SECONDS)
            self._turn()

    def _turn(self) -> None:
        """Record a turn. The first one in time ends a delay: waiting messages have been read."""
        now = self._clock.monotonic()
        began = self.late_since()
        overdue = self._overdue(now)
        self._turned, self._late_since = now, began
        if began is None or overdue:
            return
        self._late_since, self._caught_up = None, now
        self._delays.append((began, now))
        log.warning("the event loop was late", extra={"late_seconds": round(now - began, 1)})

    def _overdue(self, now: float) -> bool:
        return self._turned is not None and now - self._turned > TICK_SECONDS + LATE_SECONDS

    def late_since(self) -> float | None:
        """Return when the present delay began; None if the loop turns in time."""
        if self._late_since is not None:
            return self._late_since
        return self._turned if self._overdue(self._clock.monotonic()) else None

    def in_time_since(self) -> float | None:
        """Return when the last delay ended, minus infinity without one; None during a delay."""
        return self._caught_up if self.late_since() is None else None

    def delays(self) -> Sequence[Span]:
        """Return start and end of the last delays; a present one ends now."""
        began = self.late_since()
        lasts = () if began is None else ((began, self._clock.monotonic()),)
        return (*self._delays, *lasts)


def joined(spans: Sequence[Span]) -> Sequence[Span]:
    """Return the spans in order, with overlapping ones merged."""
    merged: list[Span] = []
    for since, until in sorted(spans):
        if merged and since <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(until, merged[-1][1]))
        else:
            merged.append((since, until))
    return tuple(merged)
