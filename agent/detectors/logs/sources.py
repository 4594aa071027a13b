"""What a source of lines is, and what it tells."""

import time
from collections.abc import Sequence
from typing import Protocol

from agent.detectors.logs.line import Line

WORK_SHARE = 0.2
"""Of one core, at most so much for reading logs, however many lines there are."""
SHORTEST_REST = 0.001
FIRST_RETRY, LONGEST_RETRY = 1.0, 60.0
"""Seconds between two tries to open a log."""


class Hearer(Protocol):
    """Never blocks and never raises."""

    def lines(self, source: str, lines: Sequence[Line]) -> None: ...

    def caught_up(self, source: str) -> None:
        """All that was there at the start has been told."""
        ...

    def lost(self, source: str, what: str) -> None:
        """Lines that nobody will see: a sentence that says how many and why."""
        ...

    def broken(self, source: str, why: str) -> None:
        """The log cannot be read now; it is tried again."""
        ...


class Source(Protocol):
    """position  where to go on after a restart, "" is the beginning; any text without secrets"""

    @property
    def name(self) -> str: ...

    @property
    def position(self) -> str: ...

    async def run(self, hearer: Hearer, position: str) -> None:
        """Until cancelled. What goes wrong with the log is told, not raised."""
        ...


class Pace:
    """How long to rest after work, so that a flood of lines costs a share of one core and no more.

    rest  seconds; 0 after work that is not worth it
    """

    def __init__(self, share: float = WORK_SHARE) -> None:
        self._factor = 1 / share - 1
        self.rest = 0.0

    def __enter__(self) -> "Pace":
        self._begun = time.thread_time()
        return self

    def __exit__(self, *_: object) -> None:
        rest = (time.thread_time() - self._begun) * self._factor
        self.rest = rest if rest >= SHORTEST_REST else 0.0
