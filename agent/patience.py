"""Runs blocking file work with a timeout: a failed disk can hang a thread in the kernel for ever.

Each piece of work runs in a thread of its own that does not keep the process alive. Hanging threads
are counted, so that a dead disk costs a few threads and not one for every request.
"""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from agent.probes import CannotAnswer

MOST_HANGING = 4
T = TypeVar("T")


def beside(work: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """Run `work` in a thread called `name`, without blocking the loop."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001  passed on to the caller
            _tell(loop, partial(_failed, done, error))
        else:
            _tell(loop, partial(_worked, done, result))

    threading.Thread(target=run, name=name, daemon=True).start()
    return done


class Waits(Protocol):
    async def wait_for(self, work: Callable[[], T], seconds: float, what: str) -> T:
        """Return the result of `work`. Raises CannotAnswer if it fails or exceeds `seconds`."""
        ...


class AtOnce:
    """Implements Waits in the loop's own thread, for work that cannot hang.

    Raises what `work` raises.
    """

    async def wait_for(self, work: Callable[[], T], seconds: float, what: str) -> T:
        return work()


AT_ONCE = AtOnce()


class Patience:
    """Implements Waits with threads. `most`: concurrent pieces of work; others wait their turn.

    Work that exceeds its time counts as hanging. Once `most` pieces hang, further work is refused.
    """

    def __init__(self, most: int = MOST_HANGING) -> None:
        self._most = most
        self._hanging = 0
        self._turns = asyncio.Semaphore(most)

    async def wait_for(self, work: Callable[[], T], seconds: float, what: str) -> T:
        if self._hanging >= self._most:
            raise CannotAnswer(f"{what}: {self._hanging} earlier looks at this host still hang")
        done: asyncio.Future[T] | None = None
        try:
            async with asyncio.timeout(seconds):
                await self._turns.acquire()
                done = beside(work, what)
                done.add_done_callback(lambda _: self._turns.release())
                return await asyncio.shield(done)
        except TimeoutError as error:
            if done is not None and not done.done():
                self._hanging += 1
                done.add_done_callback(self._returned)
            raise CannotAnswer(f"{what}: no answer within {seconds:g} s") from error
        except OSError as error:
            raise CannotAnswer(f"{what}: {error.strerror or error}") from error

    def _returned(self, done: "asyncio.Future[T]") -> None:
        self._hanging -= 1


def _worked(done: "asyncio.Future[T]", result: T) -> None:
    if not done.cancelled():
        done.set_result(result)


def _failed(done: "asyncio.Future[T]", error: Exception) -> None:
    if not done.cancelled():
        done.set_exception(error)
        done.exception()  # marks it as retrieved: the caller may be gone


def _tell(loop: asyncio.AbstractEventLoop, news: Callable[[], None]) -> None:
    """Call `news` in the loop. Does nothing if the loop has ended meanwhile."""
    try:
        loop.call_soon_threadsafe(news)
    except RuntimeError:
        return
