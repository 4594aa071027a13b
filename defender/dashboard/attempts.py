"""How often somebody may try to log in: a few times at once, then one attempt each few seconds.

By the address of whoever tries, and for all together, so that many addresses ask the API server
little. What all have comes back fast: a few addresses that fail lock nobody else out. Bounded: the
addresses that tried least lately are forgotten first.
"""

from collections import OrderedDict
from dataclasses import dataclass


@dataclass(slots=True)
class AttemptBucket:
    tokens: float
    at: float


@dataclass(frozen=True, slots=True)
class AttemptRate:
    burst: int
    every: float

    def wait(self, bucket: AttemptBucket, now: float) -> float:
        return max(0.0, (1 - self._left(bucket, now)) * self.every)

    def take(self, bucket: AttemptBucket, now: float) -> None:
        bucket.tokens, bucket.at = max(0.0, self._left(bucket, now) - 1), now

    def _left(self, bucket: AttemptBucket, now: float) -> float:
        return min(self.burst, bucket.tokens + (now - bucket.at) / self.every)


class LoginAttempts:
    """burst, every  failures at once of one address; `every` seconds give one back
    together, all_every  the same of all addresses
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
        """Seconds until `address` may try again; 0: now."""
        own = self._by.get(address, AttemptBucket(self._own.burst, now))
        return max(self._own.wait(own, now), self._total.wait(self._all, now))

    def failed(self, address: str, now: float) -> None:
        own = self._by.setdefault(address, AttemptBucket(self._own.burst, now))
        self._by.move_to_end(address)
        self._own.take(own, now)
        self._total.take(self._all, now)
        while len(self._by) > self._most:
            self._by.popitem(last=False)
