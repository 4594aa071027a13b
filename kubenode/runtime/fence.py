"""The check right before every act: does this process still hold its lease?

A leader that was cut off, or whose event loop was blocked, must not act once its lease may belong
to another process. A cancellation would come too late; this check does not.

After an act's own check its request may wait: for the client's rate, for a connection, for the
answer to an earlier request. So for code that runs `under` a lease, the client checks again right
before it sends a write, and no write may be on its way for longer than the lease lasts.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class LeaseLost(Exception):
    """The lease may belong to another process. Stop at once: the process ends."""


class Fence(Protocol):
    def check(self) -> int:
        """Return the epoch for audit records; each leader has a higher one. Raises LeaseLost."""
        ...


class AlwaysLeader:
    """Fence of a process that is the only replica by construction (demo, `--no-lease`)."""

    def check(self) -> int:
        return 0


def leads(fence: Fence) -> bool:
    """Return whether we hold the lease, to report it. Before an act use `check`."""
    try:
        fence.check()
    except LeaseLost:
        return False
    return True


class LeaseFence(Fence, Protocol):
    def remaining_seconds(self) -> float:
        """Return the seconds for which no other process can lead; 0 or less if there are none."""
        ...


_REIGN: ContextVar[LeaseFence | None] = ContextVar("reign", default=None)


@contextmanager
def under(reign: LeaseFence) -> Iterator[None]:
    """Run the block, and tasks that begin in it, as work of the leader."""
    token = _REIGN.set(reign)
    try:
        yield
    finally:
        _REIGN.reset(token)


def write_seconds(seconds: float | None) -> float | None:
    """Return the timeout of a write that may take `seconds` (None: no limit), capped by the lease.

    Raises LeaseLost if the block's lease is lost.
    """
    reign = _REIGN.get()
    if reign is None:
        return seconds
    remaining = reign.remaining_seconds()
    reign.check()  # checked last: so `remaining` was positive (aiohttp takes 0 for no limit)
    return remaining if seconds is None else min(seconds, remaining)
