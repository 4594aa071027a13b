"""An event loop whose time is the work it does: waiting costs nothing, computing does.

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(books)) as runner: ...

Its clock shows the processor time of its thread and, where all tasks wait, jumps to the first of
them. What else the machine has to do changes nothing, so a rollout of an hour is tested in the
time that its computing takes, and timeouts mean what they mean on an idle core. No sockets.
Owners who in reality have processors of their own (Books.elsewhere) take no time of the loop.
Nor do full garbage collections, which walk the objects of all owners and are nobody's in
particular: they are booked on COLLECTOR. Those of young objects are whose turn they fall into.
"""

import asyncio
import gc
import selectors
import time
from asyncio.events import Handle
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from typing import Any, Self, TypeVar

T = TypeVar("T")
OTHER, COLLECTOR = "other", "collector"
OWNER: ContextVar[str] = ContextVar("owner", default=OTHER)
"""Whose work a task does; its children's too."""
FULL = 2
"""Generation of the collections that look at everything."""
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Books:
    """seconds  of processor time, by owner
    longest    seconds of the longest turn of the loop without another's, by owner
    elsewhere  owners for whose work the clock stands still
    """

    def __init__(self, elsewhere: Collection[str] = ()) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.longest: dict[str, float] = {}
        self.elsewhere = frozenset(elsewhere)
        self._others, self._free = 0.0, 0.0
        self._collecting_since = 0.0
        self._stopped_at: float | None = None

    def spent(self) -> float:
        """Seconds of the thread, without those of owners elsewhere."""
        now = self._worked() if self._stopped_at is None else self._stopped_at
        return now - self._free

    def collected(self, phase: str, about: Mapping[str, int]) -> None:
        """As one of gc.callbacks."""
        if about["generation"] != FULL:
            return
        if phase == "start":
            self._collecting_since = time.thread_time()
        else:
            self.seconds[COLLECTOR] += time.thread_time() - self._collecting_since

    def _worked(self) -> float:
        """Seconds of the thread, without those of full collections."""
        return time.thread_time() - self.seconds[COLLECTOR]

    @contextmanager
    def lent(self, owner: str) -> Iterator[None]:
        """Work for somebody else within one turn."""
        began = self._worked()
        try:
            with self._clocked(owner):
                yield
        finally:
            took = self._worked() - began
            self.seconds[owner] += took
            self._others += took

    @contextmanager
    def turn(self, context: Context) -> Iterator[None]:
        """One turn of the loop; it may say in its course whose it is."""
        began = self._worked()
        try:
            with self._clocked(context.get(OWNER, OTHER)):
                yield
        finally:
            took, self._others = self._worked() - began - self._others, 0.0
            owner = context.get(OWNER, OTHER)
            self.seconds[owner] += took
            if took > self.longest.get(owner, 0.0):
                self.longest[owner] = took

    @contextmanager
    def _clocked(self, owner: str) -> Iterator[None]:
        if owner not in self.elsewhere or self._stopped_at is not None:
            yield
            return
        self._stopped_at = began = self._worked()
        try:
            yield
        finally:
            self._free += self._worked() - began
            self._stopped_at = None


class _Metered(Handle):
    """One turn of the loop, booked on whose it is."""

    def __init__(
        self, callback: Callable[..., Any], args: Any, loop: "SimulatedLoop", context: Context
    ) -> None:
        super().__init__(callback, args, loop, context)
        self._books, self._whose = loop.books, context

    def _run(self) -> None:
        with self._books.turn(self._whose):
            super()._run()


class _Jumping(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        if not found:
            if timeout is None:
                raise RuntimeError("every task waits for another: nothing will ever happen")
            self.skipped += max(timeout, 0.0)
        return found


class SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self, books: Books) -> None:
        self.books, self._jumping = books, _Jumping()
        super().__init__(self._jumping)
        gc.callbacks.append(self.books.collected)

    def close(self) -> None:
        if self.books.collected in gc.callbacks:
            gc.callbacks.remove(self.books.collected)
        super().close()

    def time(self) -> float:
        return self._jumping.skipped + self.books.spent()

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """At once: the clock would run away from a thread that works in the time of the world."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  it is the caller's
            future.set_exception(error)
        return future

    def _call_soon(self, callback: Any, args: Any, context: Context | None) -> Handle:
        handle = _Metered(callback, args, self, copy_context() if context is None else context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle


class LoopClock:
    """Implements kubenode.runtime.clock.Clock by the time of a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    @classmethod
    def running(cls) -> Self:
        return cls(asyncio.get_running_loop())

    def now(self) -> datetime:
        return BEGAN + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
