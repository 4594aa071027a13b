"""What time it is at the API server, by the `Date` of the responses that it gives anyway.

`Date` is the server's clock in whole seconds when it wrote the response's head (RFC 9110, 6.6.1).
It did so between our sending the request and our reading the head, so the error is half of that
time and half a second. Nothing is parsed before somebody asks.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from kubenode.runtime.clock import Clock

SLOW_SECONDS = 2.0
"""A response that took longer says little while a better one is at most KEEP_SECONDS old."""
KEEP_SECONDS = 60.0
SET_SECONDS = 1.0
"""Wall and monotonic clock that go apart by more: the wall clock was set, or the host slept."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """took  seconds from sending the request until its head was read, at `monotonic` and `wall`"""

    date: str
    took: float
    monotonic: float
    wall: datetime


class ServerTime:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answer: _Answer | None = None

    def answered(self, date: str | None, began: float) -> None:
        """Take in the head of a response. began: monotonic time at which its request was sent."""
        if not date:
            return
        now, last = self._clock.monotonic(), self._answer
        if now - began > SLOW_SECONDS and last is not None and now - last.monotonic < KEEP_SECONDS:
            return
        self._answer = _Answer(date, now - began, now, self._clock.now())

    def latest(self) -> datetime | None:
        """The time that it is at the server at the latest; None: no response has told.

        A host that slept, or whose clock was set since, may be wrong by that: then the later of the
        two readings counts until the next response.
        """
        answer, date = self._answer, self._date()
        if answer is None or date is None:
            return None
        since = max(self._monotonic_since(answer), self._wall_since(answer))
        return date + timedelta(seconds=1.0 + answer.took + since)

    def offset(self) -> float | None:
        """Seconds by which this host's wall clock is ahead of the server's; negative: behind. None:
        not measured since the wall clock was set.
        """
        answer, date = self._answer, self._date()
        if answer is None or date is None:
            return None
        if abs(self._monotonic_since(answer) - self._wall_since(answer)) > SET_SECONDS:
            return None
        return (answer.wall - date).total_seconds() - 0.5 - answer.took / 2

    def _monotonic_since(self, answer: _Answer) -> float:
        return self._clock.monotonic() - answer.monotonic

    def _wall_since(self, answer: _Answer) -> float:
        return (self._clock.now() - answer.wall).total_seconds()

    def _date(self) -> datetime | None:
        if self._answer is None:
            return None
        try:
            date = parsedate_to_datetime(self._answer.date)
        except ValueError:
            return None
        return date if date.tzinfo is not None else date.replace(tzinfo=UTC)
