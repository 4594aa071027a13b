"""The time at the API server, from the `Date` header of its responses.

`Date` is the server's clock in whole seconds when it wrote the head of the response (RFC 9110,
6.6.1). That is between our sending of the request and our reading of the head, so the error is half
of that time plus half a second. Headers are parsed only when the time is requested.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from kubenode.runtime.clock import Clock

SLOW_SECONDS = 2.0
"""A slower response is ignored while a faster one is at most KEEP_SECONDS old."""
KEEP_SECONDS = 60.0
SET_SECONDS = 1.0
"""If wall and monotonic clock differ by more, the wall clock was set, or the host slept."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The head of a response.

    took: seconds from sending the request to reading the head, at `monotonic` and `wall`
    """

    date: str
    took: float
    monotonic: float
    wall: datetime


class ServerTime:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answer: _Answer | None = None

    def answered(self, date: str | None, began: float) -> None:
        """Take the `Date` of a response. `began`: monotonic time at which its request was sent."""
        if not date:
            return
        now, last = self._clock.monotonic(), self._answer
        if now - began > SLOW_SECONDS and last is not None and now - last.monotonic < KEEP_SECONDS:
            return
        self._answer = _Answer(date, now - began, now, self._clock.now())

    def latest(self) -> datetime | None:
        """Return the latest time that it can be at the server, None without a response.

        If the host slept or its clock was set since, one of its clocks may be wrong: the later of
        the two results counts until the next response.
        """
        answer, date = self._answer, self._date()
        if answer is None or date is None:
            return None
        since = max(self._monotonic_since(answer), self._wall_since(answer))
        return date + timedelta(seconds=1.0 + answer.took + since)

    def offset(self) -> float | None:
        """Return the seconds by which this host's wall clock is ahead of the server's.

        Negative if it is behind; None if it was not measured since the wall clock was set.
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
