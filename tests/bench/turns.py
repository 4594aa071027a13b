"""Runs `kubenode` and writes down how long its event loop was busy between two looks for news.

    python -m bench.turns FILE run remedy --kubeconfig ...

A turn is what the loop does from one return of `select` to the next call: while it lasts no request
is answered. Its processor time is what counts on a machine that others use too. A line of FILE is
one turn longer than NOTABLE: when it ended, processor time, wall time, in seconds.
"""

import asyncio
import selectors
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOTABLE = 0.02


@dataclass(frozen=True, slots=True)
class Turn:
    """`at` is monotonic time, which all processes of a machine share."""

    at: float
    cpu: float
    wall: float


class Timed(selectors.DefaultSelector):
    """Tells of the time between two selects."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file.open("w", buffering=1)
        self._since: tuple[float, float] | None = None

    def select(self, timeout: float | None = None) -> Any:
        if self._since is not None:
            cpu, wall = time.thread_time() - self._since[0], time.monotonic() - self._since[1]
            if cpu > NOTABLE or wall > NOTABLE:
                self._file.write(f"{time.monotonic()} {cpu} {wall}\n")
        try:
            return super().select(timeout)
        finally:
            self._since = time.thread_time(), time.monotonic()


class Policy(asyncio.DefaultEventLoopPolicy):
    def __init__(self, file: Path) -> None:
        super().__init__()
        self._timed = file

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.SelectorEventLoop(Timed(self._timed))


def program(file: Path, *arguments: str) -> list[str]:
    """The command line of `kubenode` with these arguments, its turns told in `file`."""
    return [sys.executable, "-m", "bench.turns", str(file), *arguments]


def turns(file: Path, since: float = 0.0, until: float = float("inf")) -> dict[str, Any]:
    """Of the turns that ended within: the longest, and how many took longer than 200 ms."""
    found = [Turn(*map(float, line.split())) for line in file.read_text().splitlines()]
    found = [turn for turn in found if since <= turn.at <= until]
    return {
        "longestTurnCpuMs": round(max((t.cpu for t in found), default=0.0) * 1000, 1),
        "longestTurnWallMs": round(max((t.wall for t in found), default=0.0) * 1000, 1),
        "turnsOver200CpuMs": sum(t.cpu > 0.2 for t in found),
    }


if __name__ == "__main__":
    asyncio.set_event_loop_policy(Policy(Path(sys.argv[1])))
    sys.argv[1:] = sys.argv[2:]
    from kubenode.cli import main

    main()
