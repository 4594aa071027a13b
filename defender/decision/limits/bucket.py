"""Token bucket computed from the recorded grants.

It depends on nothing else, so a restart changes no result and all replicas agree. The bucket is
assumed empty at a multiple of `per` that is at least one `per` and one filling ago, and its tokens
never fall below zero. Both make it hold at most what the true bucket holds, so it errs towards
refusal. Intermediate results are kept until the next multiple.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from kubenode.api.v1alpha1.defenderpolicy import Rate

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
Taken = tuple[datetime, str, int]
"""When a token was taken, by which permit, and by which of its grants."""


def horizon(rate: Rate) -> timedelta:
    """Return how far back grants matter at most."""
    return _least(rate) + rate.per


def _least(rate: Rate) -> timedelta:
    return rate.per + rate.per * (rate.burst / rate.count)


def beginning(now: datetime, rate: Rate) -> datetime:
    """Return the time at which the bucket is assumed empty."""
    return EPOCH + (now - _least(rate) - EPOCH) // rate.per * rate.per


def tokens_at(now: datetime, granted: Iterable[datetime], rate: Rate) -> float:
    """Return the tokens left at `now` after one was taken at each time of `granted`, oldest first.

    Times after `now` count as now, because the clock may have been set back. This is the reference
    computation; RateBucket caches parts of it.
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
    # A token that is refilled exactly now must not be lost to rounding.
    return min(burst, tokens + passed.total_seconds() * per_second) + 1e-6


class RateBucket:
    """Tokens of one limit in one scope."""

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self._per_second = rate.count / rate.per.total_seconds()
        self._taken: list[Taken] = []
        self._after: list[float] = []
        self._begins = EPOCH
        self._first = self._known = 0
        """The cached tokens after grants `_first` to before `_known` are valid."""

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
        """Return the number of grants after `at`."""
        return len(self._taken) - bisect_right(self._taken, at, key=_instant)

    def tokens(self, now: datetime, without: frozenset[Taken] = frozenset()) -> float:
        """Return the tokens left at `now`, as if those of `without` had not been taken."""
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
