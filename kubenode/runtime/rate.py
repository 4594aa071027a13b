"""Rate limits and backoffs."""

from collections.abc import Callable

from kubenode.runtime.clock import Clock

Spread = Callable[[], float]
"""Returns a random number from 0 to 1; `random.random` outside of tests."""


class TokenBucket:
    """Lets `burst` calls pass at once, and then `rate` per second.

    A caller either waits for its token (`reserve`, `take`) or is refused (`allow`).
    """

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(f"need rate > 0 and burst >= 1, not {rate} and {burst}")
        self.rate = rate
        self.burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._filled_at = clock.monotonic()

    def _fill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self.burst, self._tokens + (now - self._filled_at) * self.rate)
        self._filled_at = now

    def reserve(self) -> float:
        """Take a token and return the seconds to wait before its use; 0 is now."""
        self._fill()
        self._tokens -= 1
        return max(0.0, -self._tokens / self.rate)

    def allow(self) -> bool:
        """Take a token if there is one, and return whether there was."""
        self._fill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    async def take(self) -> None:
        """Take a token, and wait for it."""
        if wait := self.reserve():
            await self._clock.sleep(wait)


class Backoff:
    """Growing delays with jitter, in seconds: low, 2 low, 4 low ... high, each times 0.5 to 1.

    Clients that lost one server together must not come back in step.
    """

    def __init__(self, low: float, high: float, spread: Spread) -> None:
        self.low = low
        self.high = high
        self.failures = 0
        self._spread = spread

    def reset(self) -> None:
        self.failures = 0

    def next(self) -> float:
        delay = min(self.high, self.low * 2 ** min(self.failures, 30))
        self.failures += 1
        return float(delay * (0.5 + 0.5 * self._spread()))
