"""A clock that only moves when it is set, and a runner for coroutines that never wait."""

from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SetClock:
    """Implements kubenode.runtime.clock.Clock. Sleeping on it is an error."""

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
    """Run asynchronous production code whose ports answer at once, and return its result."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise AssertionError("a port of the simulation waited")
