"""Time as an argument.

Nothing below the command line reads the machine's clock or sleeps by itself: it takes a Clock.
Tests pass a clock that stands still until they advance it.
"""

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the wall time in UTC, for people and other processes, never for waiting."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back, from an arbitrary start, for durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once `monotonic()` has advanced by `seconds`; 0 or less yields once."""
        ...


class SystemClock:
    """The one place that reads the machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251  the ban points here

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def wait(clock: Clock, event: asyncio.Event, seconds: float | None) -> bool:
    """Wait until `event` is set (True) or `seconds` have passed (False); None waits for ever."""
    if seconds is None or event.is_set():
        await event.wait()
        return True
    if type(clock) is SystemClock:  # same as below, without two tasks for each write
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
        return event.is_set()
    async with asyncio.TaskGroup() as tasks:
        woken = tasks.create_task(event.wait())
        slept = tasks.create_task(clock.sleep(seconds))
        await asyncio.wait({woken, slept}, return_when=asyncio.FIRST_COMPLETED)
        woken.cancel()
        slept.cancel()
    return event.is_set()
