"""Interfaces of sources of lines, and their pace."""

import time
from collections.abc import Sequence
from typing import Protocol

from agent.detectors.logs.line import Line

WORK_SHARE = 0.2
"""Share of one core that reading logs may use at most."""
SHORTEST_REST = 0.001
FIRST_RETRY, LONGEST_RETRY = 1.0, 60.0
"""Seconds between two tries to open a log."""


class Hearer(Protocol):
    """Receives lines and states of sources. Never blocks and never raises."""

    def lines(self, source: str, lines: Sequence[Line]) -> None: ...

    def caught_up(self, source: str) -> None:
        """All lines that existed at the start have been delivered."""
        ...

    def lost(self, source: str, what: str) -> None:
        """Lines were lost. what: a sentence with number and reason."""
        ...

    def broken(self, source: str, why: str) -> None:
        """The log cannot be read now. The source retries."""
        ...


class Source(Protocol):
    """A source. position: where to continue after a restart, "" for the start; no secrets."""

    @property
    def name(self) -> str: ...

    @property
    def position(self) -> str: ...

    async def run(self, hearer: Hearer, position: str) -> None:
        """Deliver lines until cancelled. Errors of the log are reported, not raised."""
        ...


class Pace:
    """Computes the rest after work, so that a flood of lines uses at most a share of one core.

    rest: seconds; 0 after very short work
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
