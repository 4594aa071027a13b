"""May this process still act? Asked right before every act.

A leader that was cut off, or whose loop was blocked, must not act after its lease may have gone
to another. Cancelling it arrives too late for that; this check does not.
"""

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
