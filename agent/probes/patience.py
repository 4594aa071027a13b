"""Blocking reads that may never return: a sick disk holds whoever touches it in the kernel.

Each runs in a thread of its own that nobody waits for at the end of the process. Threads that hang
are counted, so that a dead disk costs a few of them and not one for every question.
"""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from agent.probes import CannotAnswer

MOST_HANGING = 4
T = TypeVar("T")


class Patience:
    def __init__(self, most: int = MOST_HANGING) -> None:
        self._most = most
        self._busy = 0

    async def wait_for(self, work: Callable[[], T], seconds: float, what: str) -> T:
        """The result of `work`. Raises CannotAnswer when it fails, or outlasts `seconds`."""
        if self._busy >= self._most:
            raise CannotAnswer(f"{what}: {self._busy} earlier reads of this host still hang")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._busy += 1

        def run() -> None:
            try:
                result = work()
            except Exception as error:  # noqa: BLE001  told to who waits, whatever it is
                _tell(loop, partial(self._failed, done, error))
            else:
                _tell(loop, partial(self._worked, done, result))

        threading.Thread(target=run, name=f"probe {what}", daemon=True).start()
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(done)
        except TimeoutError as error:
            raise CannotAnswer(f"{what}: no answer within {seconds:g} s") from error
        except OSError as error:
            raise CannotAnswer(f"{what}: {error.strerror or error}") from error

    def _worked(self, done: "asyncio.Future[T]", result: T) -> None:
        self._busy -= 1
        if not done.cancelled():
            done.set_result(result)

    def _failed(self, done: "asyncio.Future[T]", error: Exception) -> None:
        self._busy -= 1
        if not done.cancelled():
            done.set_exception(error)
            done.exception()  # looked at: nobody may be waiting any more


def _tell(loop: asyncio.AbstractEventLoop, news: Callable[[], None]) -> None:
    """The process may be ending while a read still hangs."""
    try:
        loop.call_soon_threadsafe(news)
    except RuntimeError:
        return
