"""Ends a demo by SIGINT and SIGTERM."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator


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
