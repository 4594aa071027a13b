"""How often somebody may try to log in: a few times at once, then one attempt each few seconds.

By the address of whoever tries, and for all together, so that many addresses gain little. Bounded:
the addresses that tried least lately are forgotten first.
"""

from collections import OrderedDict
from dataclasses import dataclass


@dataclass(slots=True)
class Bucket:
    tokens: float
    at: float


class Attempts:
    """burst    failures at once, `every` seconds give one back; `together` is for all addresses."""

    def __init__(
        self, burst: int = 5, every: float = 10.0, together: int = 50, addresses: int = 1000
    ) -> None:
        self._burst, self._every, self._most = burst, every, addresses
        self._all = Bucket(together, 0.0)
        self._together = together
        self._by: OrderedDict[str, Bucket] = OrderedDict()

    def wait(self, address: str, now: float) -> float:
        """Seconds until `address` may try again; 0: now."""
        own = self._by.get(address, Bucket(self._burst, now))
        missing = max(
            1 - self._left(own, self._burst, now), 1 - self._left(self._all, self._together, now)
        )
        return max(0.0, missing * self._every)

    def failed(self, address: str, now: float) -> None:
        own = self._by.setdefault(address, Bucket(self._burst, now))
        self._by.move_to_end(address)
        for bucket, most in ((own, self._burst), (self._all, self._together)):
            bucket.tokens = max(0.0, self._left(bucket, most, now) - 1)
            bucket.at = now
        while len(self._by) > self._most:
            self._by.popitem(last=False)

    def _left(self, bucket: Bucket, most: int, now: float) -> float:
        return min(most, bucket.tokens + (now - bucket.at) / self._every)
