"""When our own event loop was late, by a task that wants to run twice a second.

A process that is starved of CPU, stopped, or swapped out hears nothing, and what others told it
meanwhile waits in its sockets. When it goes on all of them seem to have been silent. So for that
time it was deaf, until its loop turns in time again and what had waited was read.
"""

import logging
from collections import deque
from collections.abc import Sequence

from kubenode.runtime.clock import Clock

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
LATE_SECONDS = 3.0
"""A loop that turns so much too late is late. Some work on it takes a second now and then."""
MOST_DELAYS = 16

NEVER = float("-inf")
Span = tuple[float, float]


class LoopDelay:
    """A Part. Times are monotonic seconds. Until it runs the loop counts as never late."""

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
        """A turn in time after a late one ends the delay: what had waited was read in between."""
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
        """When the delay began that lasts; None: the loop turns in time."""
        if self._late_since is not None:
            return self._late_since
        return self._turned if self._overdue(self._clock.monotonic()) else None

    def in_time_since(self) -> float | None:
        """When the last delay ended, minus infinity for none; None: one lasts."""
        return self._caught_up if self.late_since() is None else None

    def delays(self) -> Sequence[Span]:
        """From when to when the loop was late, the last few; one that lasts ends now."""
        began = self.late_since()
        lasts = () if began is None else ((began, self._clock.monotonic()),)
        return (*self._delays, *lasts)


def joined(spans: Sequence[Span]) -> Sequence[Span]:
    """In order, those that overlap as one."""
    merged: list[Span] = []
    for since, until in sorted(spans):
        if merged and since <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(until, merged[-1][1]))
        else:
            merged.append((since, until))
    return tuple(merged)
