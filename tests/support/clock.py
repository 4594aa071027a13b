"""A clock that moves only when a test says so."""

import asyncio
from datetime import UTC, datetime, timedelta

T0 = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


class FakeClock:
    """Implements kubenode.runtime.clock.Clock.

    `step` moves time and lets due sleepers go on at the loop's next turn; `advance` also gives
    the loop enough turns for them to finish what they do without real waiting.
    """

    def __init__(self, start: datetime = T0) -> None:
        self._now = start
        self._seconds = 1000.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._seconds

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        due = asyncio.Event()
        entry = (self._seconds + seconds, due)
        self._sleepers.append(entry)
        try:
            await due.wait()
        finally:
            self._sleepers.remove(entry)

    def step(self, delta: timedelta) -> None:
        self._now += delta
        self._seconds += delta.total_seconds()
        for at, due in self._sleepers:
            if at <= self._seconds:
                due.set()

    def set_wall(self, delta: timedelta) -> None:
        """As NTP or a person: the wall clock jumps, and no time has passed."""
        self._now += delta

    async def advance(self, delta: timedelta) -> None:
        await settle()
        self.step(delta)
        await settle()


async def settle(turns: int = 50) -> None:
    """Let every task that can go on without real waiting do so."""
    for _ in range(turns):
        await asyncio.sleep(0)
