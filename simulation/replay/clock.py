"""A clock that stands where it was set, and coroutines that wait for nothing."""

from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SetClock:
    """Implements kubenode.runtime.clock.Clock; nobody sleeps on it."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - EPOCH).total_seconds()

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing in a simulation waits by itself")

    def set(self, now: datetime) -> None:
        self._now = now


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of production code that is asynchronous but over ports that answer at once."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise AssertionError("a port of the simulation waited")
