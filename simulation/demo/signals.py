"""Ends a demo: by SIGINT and SIGTERM, by its time, and by force if a part does not end."""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

LEAVE_SECONDS = 2.5
"""Time for all parts to end. Then the process ends with those that have not."""
INTERRUPTED = 130
"""Exit code of a demo that is stopped before it has a summary."""


async def run_until_stopped(
    work: Coroutine[Any, Any, None], end: Callable[[], None], seconds: float | None = None
) -> None:
    """Run `work` until it ends, a signal, or the end of the time. Raises what `work` raises.

    end: called before `work` is cancelled.
    seconds: None for no limit.
    """
    stop = asyncio.Event()
    with set_at_signal(stop):
        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(work)
            stopping = tasks.create_task(stop.wait())
            await asyncio.wait(
                {working, stopping}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            stopping.cancel()
            if not working.done():
                end()
                working.cancel()


def leave_in_time(leave: Callable[[], None]) -> None:
    """Have `leave` called after LEAVE_SECONDS, unless the process has ended by then."""
    timer = threading.Timer(LEAVE_SECONDS, leave)
    timer.daemon = True
    timer.start()


@contextlib.contextmanager
def set_at_signal(stop: asyncio.Event) -> Iterator[None]:
    """Set `stop` at the first signal, and end the process at the second one."""

    def handle_signal(number: signal.Signals) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, handle_signal, number)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
