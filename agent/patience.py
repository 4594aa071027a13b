"""Work on files that may never return: a sick disk holds whoever touches it in the kernel.

Each piece runs in a thread of its own that nobody waits for at the end of the process. Threads that
hang are counted, so that a dead disk costs a few of them and not one for every question.
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
    """The result of `work`, done in a thread called `name` while the loop goes on."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001  told to who waits, whatever it is
            _tell(loop, partial(_failed, done, error))
        else:
            _tell(loop, partial(_worked, done, result))

    threading.Thread(target=run, name=name, daemon=True).start()
    return done


class Waits(Protocol):
    async def wait_for(self, work: Callable[[], T], seconds: float, what: str) -> T:
        """The result of `work`. Raises CannotAnswer when it fails, or outlasts `seconds`."""
        ...


class AtOnce:
    """Implements Waits for what hangs on no disk, in the loop's own thread. Raises what `work`
    raises.
    """

    async def wait_for(self, work: Callable[[], T], seconds: float, what: str) -> T:
        return work()


AT_ONCE = AtOnce()


class Patience:
    """Implements Waits. `most`: pieces of work that run at one time; others wait for their turn.

    Work that has outlasted its time hangs. Once all that may run hang, more is refused at once.
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
        done.exception()  # looked at: nobody may be waiting any more


def _tell(loop: asyncio.AbstractEventLoop, news: Callable[[], None]) -> None:
    """The process may be ending while a read still hangs."""
    try:
        loop.call_soon_threadsafe(news)
    except RuntimeError:
        return
