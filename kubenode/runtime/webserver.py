"""An ASGI application on a listening socket, as a part of a program."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator

import uvicorn
from starlette.applications import Starlette

LEAVE_SECONDS = 5
"""For answers under way when we are told to stop."""
IDLE_SECONDS = 75
"""How long a caller's connection may rest. Longer than API servers pause between two questions:
a server that closes first may close on a question that is on its way."""


class _Server(uvicorn.Server):
    """Signals are the program's (kubenode.runtime.process), not one part's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    app: Starlette,
    listener: socket.socket,
    *,
    tls: Callable[[], ssl.SSLContext] | None = None,
) -> None:
    """Until cancelled; answers under way are finished first. `tls` gives the context to serve with.

    Whoever calls has bound the socket, so callers may connect before this runs.
    """
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            http="h11",
            ws="none",
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=LEAVE_SECONDS,
            ssl_context_factory=(lambda config, default: tls()) if tls is not None else None,
        )
    )
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(server.serve(sockets=[listener]), name="uvicorn")
        try:
            await asyncio.wait({work})
        finally:
            server.should_exit = True
            await asyncio.wait({work}, timeout=LEAVE_SECONDS + 1)
