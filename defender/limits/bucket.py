"""A token bucket that is worked out from the grants on record.

Nothing but these is needed, so a restart changes no answer and all replicas give the same. The
bucket is taken to have been empty at a whole multiple of `per`, at least one `per` and one filling
ago, and never goes below zero; both make it hold at most what the true bucket holds, so it errs on
the side of no. Between two such multiples what was worked out once is kept.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from kubenode.api.v1alpha1.defenderpolicy import Rate

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
Taken = tuple[datetime, str, int]
"""When a token was taken, by which permit, and by which of its grants."""


def horizon(rate: Rate) -> timedelta:
    """How far back grants matter at most."""
    return _least(rate) + rate.per


def _least(rate: Rate) -> timedelta:
    return rate.per + rate.per * (rate.burst / rate.count)


def beginning(now: datetime, rate: Rate) -> datetime:
    """When the bucket is taken to have been empty."""
    return EPOCH + (now - _least(rate) - EPOCH) // rate.per * rate.per


def tokens_at(now: datetime, granted: Iterable[datetime], rate: Rate) -> float:
    """Tokens left at `now` after taking one at each instant of `granted`, oldest first.

    Instants after `now` (a clock that was set back) count as now. This is the whole arithmetic;
    a Bucket keeps what of it stays the same.
    """
    at = beginning(now, rate)
    tokens, per_second = 0.0, rate.count / rate.per.total_seconds()
    for taken in granted:
        if taken >= at:
            then = min(taken, now)
            tokens = _after(tokens, then - at, per_second, rate.burst)
            at = then
    return _now(tokens, now - at, per_second, rate.burst)


def _after(tokens: float, passed: timedelta, per_second: float, burst: int) -> float:
    return max(0.0, min(burst, tokens + passed.total_seconds() * per_second) - 1)


def _now(tokens: float, passed: timedelta, per_second: float, burst: int) -> float:
    # A token that refills exactly now must not be lost to the last bit of a float.
    return min(burst, tokens + passed.total_seconds() * per_second) + 1e-6


class RateBucket:
    """The tokens of one limit in one scope."""

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self._per_second = rate.count / rate.per.total_seconds()
        self._taken: list[Taken] = []
        self._after: list[float] = []
        self._begins = EPOCH
        self._first = self._known = 0
        """Of the tokens after each grant those from `_first` to before `_known` are right."""

    def __len__(self) -> int:
        return len(self._taken)

    def add(self, taken: Taken) -> None:
        place = bisect_left(self._taken, taken)
        self._taken.insert(place, taken)
        self._after.insert(place, 0.0)
        self._changed(place, taken, +1)

    def remove(self, taken: Taken) -> None:
        place = bisect_left(self._taken, taken)
        del self._taken[place], self._after[place]
        self._changed(place, taken, -1)

    def _changed(self, place: int, taken: Taken, by: int) -> None:
        if taken[0] < self._begins:
            self._first += by
            self._known += by
        else:
            self._known = min(self._known, place)

    def since(self, at: datetime) -> int:
        """Grants later than `at`."""
        return len(self._taken) - bisect_right(self._taken, at, key=_instant)

    def tokens(self, now: datetime, without: frozenset[Taken] = frozenset()) -> float:
        """Tokens left at `now`, as if `without` had not been taken."""
        if without or (self._taken and self._taken[-1][0] > now):
            return tokens_at(now, [t[0] for t in self._taken if t not in without], self.rate)
        begins = beginning(now, self.rate)
        if begins != self._begins:
            self._begins = begins
            self._first = self._known = bisect_left(self._taken, begins, key=_instant)
        self._work_out()
        if self._first == len(self._taken):
            return _now(0.0, now - begins, self._per_second, self.rate.burst)
        passed = now - self._taken[-1][0]
        return _now(self._after[-1], passed, self._per_second, self.rate.burst)

    def _work_out(self) -> None:
        for place in range(self._known, len(self._taken)):
            new = place == self._first
            before = 0.0 if new else self._after[place - 1]
            at = self._begins if new else self._taken[place - 1][0]
            passed = self._taken[place][0] - at
            self._after[place] = _after(before, passed, self._per_second, self.rate.burst)
        self._known = len(self._taken)


def _instant(taken: Taken) -> datetime:
    return taken[0]
