"""Limits of login attempts: a few at once, then one attempt in each few seconds.

They apply to each address and to all together, so that many addresses cause few requests to the API
server. The common limit recovers fast, so a few failing addresses lock out nobody else. The number
of addresses is bounded: the least recently used ones are dropped first.
"""

from collections import OrderedDict
from dataclasses import dataclass


@dataclass(slots=True)
class AttemptBucket:
    """Remaining attempts at a monotonic time."""

    tokens: float
    at: float


@dataclass(frozen=True, slots=True)
class AttemptRate:
    """A rate of attempts: `burst` at once, and one more after each `every` seconds."""

    burst: int
    every: float

    def wait(self, bucket: AttemptBucket, now: float) -> float:
        return max(0.0, (1 - self._remaining(bucket, now)) * self.every)

    def take(self, bucket: AttemptBucket, now: float) -> None:
        bucket.tokens, bucket.at = max(0.0, self._remaining(bucket, now) - 1), now

    def _remaining(self, bucket: AttemptBucket, now: float) -> float:
        return min(self.burst, bucket.tokens + (now - bucket.at) / self.every)


class LoginAttempts:
    """Failed attempts.

    burst: failures at once of one address.
    every: seconds after which one of them is available again.
    together, all_every: the same for all addresses.
    addresses: greatest number of addresses to track.
    """

    def __init__(
        self,
        burst: int = 5,
        every: float = 10.0,
        together: int = 50,
        all_every: float = 0.2,
        addresses: int = 1000,
    ) -> None:
        self._own, self._total, self._most = (
            AttemptRate(burst, every),
            AttemptRate(together, all_every),
            addresses,
        )
        self._all = AttemptBucket(together, 0.0)
        self._by: OrderedDict[str, AttemptBucket] = OrderedDict()

    def wait(self, address: str, now: float) -> float:
        """Return the seconds until `address` may try again, 0 for now."""
        own = self._by.get(address, AttemptBucket(self._own.burst, now))
        return max(self._own.wait(own, now), self._total.wait(self._all, now))

    def failed(self, address: str, now: float) -> None:
        own = self._by.setdefault(address, AttemptBucket(self._own.burst, now))
        self._by.move_to_end(address)
        self._own.take(own, now)
        self._total.take(self._all, now)
        while len(self._by) > self._most:
            self._by.popitem(last=False)
