"""Providers over a blocking SDK, run in threads so that they never block the event loop.

Calls run in a few threads of their own. They are bounded by the SDK's time limits for connecting
and reading, by a limit for the whole call, and by a maximum of waiting calls. A call that did not
begin in time is withdrawn and never begins. A call that began cannot be stopped; but right before a
change it checks that the caller still waits (`still_wanted`), because the job may have moved on.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from kubenode.providers.absences import Absences
from kubenode.providers.errors import NoSuchMachine, ProviderError, Throttled, Unreachable
from kubenode.providers.port import Can, Power, PowerState, ProviderMachine
from kubenode.runtime.clock import Clock

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

THREADS = 8
MAX_IN_FLIGHT = 256
COME_AGAIN = timedelta(seconds=5)


_calling = threading.local()


def still_wanted(provider: str) -> None:
    """Raise Unreachable if the caller does not wait any more. Call it right before a change."""
    given_up: threading.Event | None = getattr(_calling, "given_up", None)
    if given_up is not None and given_up.is_set():
        raise Unreachable(provider, "the looking before took too long: nothing was done")


class Blocking(Protocol):
    """A Provider whose methods block, each for at most the SDK's time limits times its requests.

    `explain` translates exceptions other than ProviderErrors. A method that changes something calls
    `still_wanted` right before the change.
    """

    name: str
    can: Can

    def owns(self, machine: ProviderMachine) -> bool: ...

    def power(self, machine: ProviderMachine) -> Power: ...

    def off(self, machine: ProviderMachine, request: str) -> None: ...

    def on(self, machine: ProviderMachine, request: str) -> None: ...

    def reset(self, machine: ProviderMachine, request: str) -> None: ...

    def replace(self, machine: ProviderMachine, request: str) -> None: ...

    def approve(self, machine: ProviderMachine, event: str) -> None: ...

    def explain(self, error: Exception) -> ProviderError | None:
        """Translate an exception of the SDK; None if it is unknown."""
        ...

    def close(self) -> None: ...


class ThreadedCalls:
    """Runs blocking calls in a few threads, each for at most `within`.

    explain: translates an exception of the SDK; None if it is unknown
    """

    def __init__(
        self,
        provider: str,
        explain: Callable[[Exception], ProviderError | None],
        within: timedelta,
        threads: int,
    ) -> None:
        self._provider, self._explain, self._within = provider, explain, within
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=provider)
        self._room = threading.Semaphore(MAX_IN_FLIGHT)

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread. Raises ProviderError and nothing else."""
        if not self._room.acquire(blocking=False):
            message = f"{MAX_IN_FLIGHT} requests of ours are under way already"
            raise Throttled(self._provider, message, COME_AGAIN)
        given_up = threading.Event()
        try:
            future = self._pool.submit(self._run_work, work, given_up)
        except RuntimeError as error:
            self._room.release()
            raise Unreachable(self._provider, "this process is ending") from error
        future.add_done_callback(lambda _: self._room.release())
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._within.total_seconds())
        except TimeoutError as error:
            message = f"no answer within {self._within.total_seconds():g} s"
            raise Unreachable(self._provider, message) from error
        finally:
            given_up.set()

    def wrap(self, call: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
        """Return a coroutine function that runs the blocking call by `run`."""

        async def threaded(*args: P.args, **kwargs: P.kwargs) -> T:
            return await self.run(lambda: call(*args, **kwargs))

        return threaded

    async def close(self) -> None:
        """Withdraw waiting calls, and wait until the SDK's time limits have ended the others."""
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)

    def _run_work(self, work: Callable[[], T], given_up: threading.Event) -> T:
        _calling.given_up = given_up
        try:
            return work()
        except ProviderError:
            raise
        except Exception as error:  # SDKs raise anything: none of it travels inwards
            known = self._explain(error)
            if known is None:
                log.exception(
                    "unknown error of a provider's SDK", extra={"provider": self._provider}
                )
                known = Unreachable(self._provider, type(error).__name__)
            raise known from error


class Threaded:
    """A Provider over a blocking one.

    within: limit of a whole call, longer than the SDK's own time limits
    """

    def __init__(
        self,
        inner: Blocking,
        clock: Clock,
        within: timedelta = timedelta(seconds=60),
        threads: int = THREADS,
    ) -> None:
        self.name = inner.name
        self.can = inner.can
        self._inner = inner
        self._clock = clock
        self._absences = Absences()
        self._calls = ThreadedCalls(inner.name, inner.explain, within, threads)
        self.owns = inner.owns
        self.off = self._calls.wrap(inner.off)
        self.on = self._calls.wrap(inner.on)
        self.reset = self._calls.wrap(inner.reset)
        self.replace = self._calls.wrap(inner.replace)
        self.approve = self._calls.wrap(inner.approve)

    async def power(self, machine: ProviderMachine) -> Power:
        try:
            power = await self._calls.run(lambda: self._inner.power(machine))
        except NoSuchMachine as error:
            if self._absences.proven(machine.provider_id, self._clock.monotonic()):
                return Power(PowerState.GONE, error.message, self._clock.now())
            raise
        self._absences.mark_present(machine.provider_id)
        return power

    async def close(self) -> None:
        await self._calls.close()
        await asyncio.to_thread(self._inner.close)


class Once(Generic[T]):
    """A value made at its first use, by one thread at a time. A failure is not cached."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: T | None = None
        self._lock = threading.Lock()

    def get(self) -> T:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    @property
    def made(self) -> T | None:
        return self._made
