"""May this process still act? Asked right before every act.

A leader that was cut off, or whose loop was blocked, must not act after its lease may have gone
to another. Cancelling it arrives too late for that; this check does not.

Between an act's own check and its request lie waits: for the client's rate, for a connection, for
the answer to the request before. So what runs `under` a reign is asked once more by the client,
right before each write leaves, and no write of it outlives the reign on its way out.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class LeaseLost(Exception):
    """The lease may belong to another process: stop at once, the process ends."""


class Fence(Protocol):
    def check(self) -> int:
        """The epoch for audit records, growing from leader to leader. Raises LeaseLost."""
        ...


class AlwaysLeader:
    """For processes that have no rival: one replica by construction (demo, `--no-lease`)."""

    def check(self) -> int:
        return 0


def leads(fence: Fence) -> bool:
    """Whether we hold the lease, for who only tells it; who acts asks `check`."""
    try:
        fence.check()
    except LeaseLost:
        return False
    return True


class LeaseFence(Fence, Protocol):
    def remaining_seconds(self) -> float:
        """Seconds for which surely nobody else leads; 0 or less when that is over."""
        ...


_REIGN: ContextVar[LeaseFence | None] = ContextVar("reign", default=None)


@contextmanager
def under(reign: LeaseFence) -> Iterator[None]:
    """What is done in the block, and in tasks that begin there, is done by who leads."""
    token = _REIGN.set(reign)
    try:
        yield
    finally:
        _REIGN.reset(token)


def write_seconds(seconds: float | None) -> float | None:
    """For how long a write may be on its way that may take `seconds`, None for ever.

    Raises LeaseLost where it is done under a reign that is over.
    """
    reign = _REIGN.get()
    if reign is None:
        return seconds
    remaining = reign.remaining_seconds()
    reign.check()  # last: what was left before it was more than nothing, and 0 means for ever
    return remaining if seconds is None else min(seconds, remaining)
