"""A loop on which nothing but waiting takes time, and chance comes from a seed: each run is as the
one before.

`support.simulated_time` measures what work costs and so is never twice the same. Here the clock
only jumps, from one moment at which somebody is due to the next.
"""

import asyncio
import gc
import itertools
import random
import selectors
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from support.simulated_time import Books, SimulatedLoop

LEAST = 1e-6
"""Seconds of a jump: what floats round away must not make anybody wait for ever."""
RARELY = (100_000, 20, 50)
"""Python's own thresholds look at everything that there is far too often where so much stays."""


class Unmetered(Books):
    """Whose work it is does not matter, as none takes time."""

    def spent(self) -> float:
        return 0.0

    @contextmanager
    def lent(self, owner: str) -> Iterator[None]:
        yield


class _Leaping(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("every task waits for another: nothing will ever happen")
        if timeout > 0:
            self.at += max(timeout, LEAST)
        return []


class _Task(asyncio.Task[Any]):
    """Sets of these are in the same order in each run, as they are not by address."""

    def __init__(self, *args: Any, number: int, **named: Any) -> None:
        self._number = number
        super().__init__(*args, **named)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[Any]):
    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class InstantLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.books, self._leaping = Unmetered(), _Leaping()
        self._numbers = itertools.count()
        super().__init__(self._leaping)
        self.set_task_factory(self._task)

    def time(self) -> float:
        return self._leaping.at

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(next(self._numbers), self)

    def _task(self, loop: asyncio.AbstractEventLoop, coro: Any, **named: Any) -> _Task:
        return _Task(coro, loop=loop, number=next(self._numbers), **named)

    run_in_executor = SimulatedLoop.run_in_executor  # type: ignore[assignment]


@contextmanager
def by_chance_of(seed: int) -> Iterator[None]:
    """While it is open, UIDs and boot IDs come from the seed, and so do all names made of them.
    The order of sets comes from PYTHONHASHSEED, which only a new process can change.
    """
    chance = random.Random(f"uids {seed}")

    def made() -> uuid.UUID:
        return uuid.UUID(int=chance.getrandbits(128), version=4)

    random.seed(seed)
    with (
        mock.patch("simulation.apiserver.objects.new_uid", lambda: str(made())),
        mock.patch("uuid.uuid4", made),
        # goes by the wall clock, of the machine
        mock.patch("defender.server.calendar.AsyncIOScheduler"),
    ):
        yield


@contextmanager
def one_heap() -> Iterator[None]:
    """While it is open, a program that starts does not keep the garbage collector off the whole
    process, as it would one of its own: here other lives of it came before.
    """
    before = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        with mock.patch("kubenode.runtime.garbage.gc"):
            yield
    finally:
        gc.set_threshold(*before)
