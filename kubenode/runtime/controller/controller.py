"""Workers over one queue: `reconcile(key)` handles a key and returns when to reconcile it again.

This is the only place that catches every exception. A failed reconcile is retried with a growing
delay, and logged whenever its text changes; meanwhile all other keys go on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from kubenode.runtime.clock import Clock, SystemClock, wait
from kubenode.runtime.controller.queue import WorkQueue
from kubenode.runtime.controller.result import Result, TerminalError
from kubenode.runtime.fence import AlwaysLeader, Fence, LeaseLost
from kubenode.runtime.kube.errors import (
    Conflict,
    KubeError,
    NotFound,
    ServerUnreachable,
    TooManyRequests,
)
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.telemetry.about import about

log = logging.getLogger(__name__)

Reconcile = Callable[[str], Awaitable[Result]]
Mapper = Callable[[str, Any, Any], Iterable[str]]
"""Maps a change (key, old, new) to the keys that it affects; old or new is None if absent."""

WORKERS = 8
DEADLINE_SECONDS = 60.0
DRAIN_SECONDS = 10.0
GONE_REQUEUE_SECONDS = 30.0
PATIENCE_SECONDS = 5.0
TURN = 0.01
"""Seconds after which a worker yields to the event loop, even if its keys need no waiting."""

OUTCOMES = ("done", "later", "conflict", "gone", "throttled", "terminal", "timeout", "error")


class KeySource(Protocol):
    """Publishes changes of objects: an informer, or a store that is filled from one."""

    def add_handler(self, handler: Callable[[str, Any, Any], None]) -> None: ...


class ReconcileMeter(Protocol):
    """Receives a controller's measurements."""

    def reconciled(self, outcome: str, seconds: float) -> None:
        """`outcome` is one of OUTCOMES."""
        ...


class NoReconcileMeter:
    def reconciled(self, outcome: str, seconds: float) -> None: ...


def same_key(key: str, old: object, new: object) -> tuple[str]:
    return (key,)


class Controller:
    """Runs `workers` workers. No two of them reconcile the same key at once.

    deadline: seconds for one reconcile; a timeout is an error like any other
    drain: seconds that running reconciles get at shutdown before they are cancelled, as long as
        `fence` permits acts; a lost lease ends them at once
    key_is: what a key names, as the field of log lines
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        workers: int = WORKERS,
        queue: WorkQueue[str] | None = None,
        clock: Clock | None = None,
        deadline: float = DEADLINE_SECONDS,
        drain: float = DRAIN_SECONDS,
        fence: Fence | None = None,
        meter: ReconcileMeter | None = None,
        key_is: str = "key",
    ) -> None:
        self.name = name
        self._key_is = key_is
        self.clock = clock or SystemClock()
        # An empty queue is false.
        self.queue = queue if queue is not None else WorkQueue(self.clock)
        self._reconcile = reconcile
        self._workers = workers
        self._deadline = deadline
        self._drain = drain
        self._fence = fence or AlwaysLeader()
        self._meter = meter or NoReconcileMeter()
        self._informers: list[Informer[Any]] = []
        self._others: list[Informer[Any]] = []
        self._errors: dict[str, str] = {}
        self._stopping = False
        self._running = 0

    def watch(
        self, informer: Informer[Any], mapper: Mapper = same_key, *, awaited: bool = True
    ) -> None:
        """Enqueue the keys that `mapper` returns for each change; `run` waits for the first list.

        An object that a resync repeats unchanged comes after those that have changed.

        awaited: False makes `run` wait at most PATIENCE_SECONDS and start without the informer
        """
        (self._informers if awaited else self._others).append(informer)
        self.follow(informer, mapper)

    def follow(self, source: KeySource, mapper: Mapper = same_key) -> None:
        """Enqueue the keys that `mapper` returns for each change; `run` does not wait."""

        def enqueue(key: str, old: Any, new: Any) -> None:
            add = self.queue.add_idle if old is new else self.queue.add
            for target in mapper(key, old, new):
                add(target)

        source.add_handler(enqueue)

    async def run(self) -> None:
        """Work until cancelled. Start it only while this process holds the lease."""
        for informer in self._informers:
            await informer.synced.wait()
        patience = self.clock.monotonic() + PATIENCE_SECONDS
        for informer in self._others:
            await wait(self.clock, informer.synced, max(patience - self.clock.monotonic(), 0.0))
        log.info("controller starts", extra={"controller": self.name})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.queue.run(), name=f"{self.name} timer")
            workers = {
                tasks.create_task(self._work(), name=f"{self.name} worker {i}")
                for i in range(self._workers)
            }
            try:
                await asyncio.wait(workers)
            except asyncio.CancelledError:
                await self._finish(workers)
                raise  # and the group cancels the rest

    async def _finish(self, workers: set[asyncio.Task[None]]) -> None:
        """Let running reconciles end; hand out no new key."""
        self._stopping = True
        deadline = self.clock.monotonic() + self._drain
        while self._running and self.clock.monotonic() < deadline:
            try:
                self._fence.check()
            except LeaseLost:
                return
            await asyncio.wait(workers, timeout=0.05)

    async def _work(self) -> None:
        turn = self.clock.monotonic()
        while True:
            if self.clock.monotonic() - turn >= TURN:
                await asyncio.sleep(0)
                turn = self.clock.monotonic()
            key = await self.queue.get()
            if self._stopping:
                return
            self._running += 1
            try:
                await self._reconcile_key(key)
            finally:
                self._running -= 1
                self.queue.done(key)

    async def _reconcile_key(self, key: str) -> None:
        began = self.clock.monotonic()
        outcome = "error"
        try:
            with about(**{"controller": self.name, self._key_is: key}):
                async with asyncio.timeout(self._deadline):
                    result = await self._reconcile(key)
            outcome = self._succeeded(key, result)
        except (LeaseLost, MemoryError):
            raise  # the process ends: a retry cannot cure either
        except Exception as error:  # noqa: BLE001  the worker is the place for it
            outcome = self._failed(key, error)
        finally:
            self._meter.reconciled(outcome, self.clock.monotonic() - began)

    def _succeeded(self, key: str, result: Result) -> str:
        self.queue.forget(key)
        self._errors.pop(key, None)
        if result.requeue_after is None:
            return "done"
        self.queue.add_after(key, result.requeue_after.total_seconds())
        return "later"

    def _failed(self, key: str, error: Exception) -> str:
        match error:
            case Conflict():
                self.queue.retry(key)  # another client wrote first: read again, nothing to report
                return "conflict"
            case NotFound():
                # The object that we wanted to change is gone, and its deletion will reach the
                # cache. If something else is missing, the later reconcile handles it.
                self.queue.wait_for_change(key)
                self.queue.add_after(key, GONE_REQUEUE_SECONDS)
                return "gone"
            case TooManyRequests():
                self.queue.retry(key, at_least=error.retry_after or 0.0)
                return "throttled"
            case TerminalError():
                self.queue.wait_for_change(key)
                self._report(key, error)
                return "terminal"
            case TimeoutError():
                self.queue.retry(key)
                self._report(key, error)
                return "timeout"
            case _:
                self.queue.retry(key, at_least=_retry_after(error))
                self._report(key, error)
                return "error"

    def _report(self, key: str, error: Exception) -> None:
        """Log the error unless its text is unchanged: a fault that lasts an hour is one line."""
        text = f"{type(error).__name__}: {error}"
        if self._errors.get(key) == text:
            return
        self._errors[key] = text
        extra = {"controller": self.name, self._key_is: key, "why": text}
        log.error("reconcile failed", exc_info=None if _answers_ill(error) else error, extra=extra)


def _answers_ill(error: Exception) -> bool:
    """Return whether the API server is at fault, so that a traceback would explain nothing."""
    return isinstance(error, ServerUnreachable) or (
        isinstance(error, KubeError) and error.status >= 500
    )


def _retry_after(error: Exception) -> float:
    return (error.retry_after or 0.0) if isinstance(error, KubeError) else 0.0
