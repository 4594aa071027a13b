"""One program: its parts start and end together.

Endless tasks have one owner, a TaskGroup here. If one ends, so does the process: a program without
its watch, or without its health server, must not look alive. There are two rings of parts. The
*ground* (informers, the event recorder, the health server) stops after the *parts* that depend on
it, so that a reconcile which is allowed to finish still reads its own writes.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from typing import Protocol

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Part(Protocol):
    @property
    def name(self) -> str: ...

    async def run(self) -> None:
        """Work until cancelled. Only a part that has an end may return earlier."""
        ...


class CannotStart(Exception):
    """What is wrong and what to do, for the person who started the program. Needs no traceback."""


async def serve(parts: Sequence[Part], ground: Sequence[Part] = ()) -> None:
    """Run until all `parts` have ended, one part fails, or this task is cancelled.

    Raises an ExceptionGroup of the failures. After a cancellation `parts` end first, then `ground`.
    """
    async with asyncio.TaskGroup() as below:
        under = [below.create_task(part.run(), name=part.name) for part in ground]
        async with asyncio.TaskGroup() as tasks:
            for part in parts:
                tasks.create_task(part.run(), name=part.name)
        for task in under:
            task.cancel()


async def run_until_signal(
    parts: Sequence[Part],
    *,
    ground: Sequence[Part] = (),
    grace: float = 25.0,
    leave: Callable[[int], None] = os._exit,
) -> None:
    """`serve` until SIGTERM or SIGINT, then stop gracefully.

    grace: seconds for all parts to end after the signal, below the 30 s that a kubelet allows
    leave: ends the process at once, after a second signal or if a part exceeds `grace`. A hung part
        must not hang the stop; what it was about to write is fenced anyway.
    """
    stop = asyncio.Event()

    def handle_signal(number: signal.Signals) -> None:
        if stop.is_set():
            log.warning("second signal, leaving at once", extra={"signal": number.name})
            leave(128 + number)
        log.info("stopping", extra={"signal": number.name})
        stop.set()

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, handle_signal, number)
    try:
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(serve(parts, ground), name="serve")
            signalled = tasks.create_task(stop.wait(), name="signals")
            await asyncio.wait({work, signalled}, return_when=asyncio.FIRST_COMPLETED)
            signalled.cancel()
            if work.done():
                return
            work.cancel()
            _, slow = await asyncio.wait({work}, timeout=grace)
            if slow:
                log.error("parts did not end in time, leaving", extra={"grace_seconds": grace})
                leave(1)
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


def causes(error: BaseException) -> list[BaseException]:
    """Return the single errors of nested groups, in order, each once."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    leaf_errors: list[BaseException] = []
    for inner in error.exceptions:
        leaf_errors += [cause for cause in causes(inner) if cause not in leaf_errors]
    return leaf_errors


async def forever() -> None:
    """Wait until cancelled."""
    await asyncio.Event().wait()
