"""The clock of a simulated host, which may be wrong."""

from datetime import datetime

from kubenode.runtime.clock import Clock
from simulation.demo.hosts import DemoHost


class HostClock:
    """Implements kubenode.runtime.clock.Clock for programs on a host."""

    def __init__(self, clock: Clock, host: DemoHost) -> None:
        self._clock, self._host = clock, host

    def now(self) -> datetime:
        return self._clock.now() + self._host.clock_ahead

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
