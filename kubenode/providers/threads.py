"""Providers whose SDK blocks, made into ones that never hold up the loop.

Their calls run in a few threads of their own. Each is bounded: by the SDK's own time limits for
connecting and reading, by one for the whole here, and no more than a fixed number wait. A call that
did not begin in time is withdrawn and never begins. One that began goes on, but before it acts it
looks whether somebody still waits (`still_wanted`): an act must not come when its job has moved on.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

from kubenode.providers.absences import Absences
from kubenode.providers.errors import NoSuchMachine, ProviderError, Throttled, Unreachable
from kubenode.providers.port import Can, Power, PowerState, ProviderMachine
from kubenode.runtime.clock import Clock

T = TypeVar("T")

log = logging.getLogger(__name__)

THREADS = 8
MAX_IN_FLIGHT = 256
COME_AGAIN = timedelta(seconds=5)


_calling = threading.local()


def still_wanted(provider: str) -> None:
    """To be called right before an act. Raises Unreachable if nobody waits for it any more."""
    given_up: threading.Event | None = getattr(_calling, "given_up", None)
    if given_up is not None and given_up.is_set():
        raise Unreachable(provider, "the looking before took too long: nothing was done")


class Blocking(Protocol):
    """A Provider whose methods block, each at most the SDK's time limits times its requests.

    What they raise beside ProviderErrors is told by `explain`. What changes something calls
    `still_wanted` first.
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
        """What an exception of the SDK means to us; None if it is not known."""
        ...

    def close(self) -> None: ...


class ThreadedCalls:
    """Runs what blocks in a few threads, each call for at most `within`.

    explain  what an exception of the SDK means to us; None if it is not known
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
        """Raises ProviderError and nothing else."""
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

    async def close(self) -> None:
        """Calls that wait never begin; those under way end within the SDK's time limits."""
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)

    def _run_work(self, work: Callable[[], T], given_up: threading.Event) -> T:
        _calling.given_up = given_up
        try:
            return work()
        except ProviderError:
            raise
        except Exception as error:  # SDKs raise what they like: none of it travels inwards
            known = self._explain(error)
            if known is None:
                log.exception(
                    "unknown error of a provider's SDK", extra={"provider": self._provider}
                )
                known = Unreachable(self._provider, type(error).__name__)
            raise known from error


class Threaded:
    """A Provider over a blocking one.

    within  how long a whole call may take, longer than the SDK's own time limits
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

    def owns(self, machine: ProviderMachine) -> bool:
        return self._inner.owns(machine)

    async def power(self, machine: ProviderMachine) -> Power:
        try:
            power = await self._calls.run(lambda: self._inner.power(machine))
        except NoSuchMachine as error:
            if self._absences.proven(machine.provider_id, self._clock.monotonic()):
                return Power(PowerState.GONE, error.message, self._clock.now())
            raise
        self._absences.mark_present(machine.provider_id)
        return power

    async def off(self, machine: ProviderMachine, request: str) -> None:
        await self._calls.run(lambda: self._inner.off(machine, request))

    async def on(self, machine: ProviderMachine, request: str) -> None:
        await self._calls.run(lambda: self._inner.on(machine, request))

    async def reset(self, machine: ProviderMachine, request: str) -> None:
        await self._calls.run(lambda: self._inner.reset(machine, request))

    async def replace(self, machine: ProviderMachine, request: str) -> None:
        await self._calls.run(lambda: self._inner.replace(machine, request))

    async def approve(self, machine: ProviderMachine, event: str) -> None:
        await self._calls.run(lambda: self._inner.approve(machine, event))

    async def close(self) -> None:
        await self._calls.close()
        await asyncio.to_thread(self._inner.close)


class Once(Generic[T]):
    """Something made when it is first needed, by one thread at a time; a failure is not kept."""

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
