"""A disk that hangs, without the wait."""

from collections.abc import Callable
from typing import TypeVar

from agent.probes import CannotAnswer

T = TypeVar("T")


class Hanging:
    """Implements agent.patience.Waits: nothing is answered in time."""

    async def wait_for(self, work: Callable[[], T], seconds: float, what: str) -> T:
        raise CannotAnswer(f"{what}: no answer within {seconds:g} s")
