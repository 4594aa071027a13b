"""An HTTPS server as a part of a program, with a certificate that may change while it serves."""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette

from kubenode.runtime.process import CannotStart
from kubenode.runtime.tls.context import LiveContext

log = logging.getLogger(__name__)

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


class HttpsServer:
    """A Part. `port` 0 takes a free one, which `port` then gives; `flag` is named in errors."""

    name = "webhook server"

    def __init__(
        self, app: Starlette, context: LiveContext, *, address: str, port: int, flag: str
    ) -> None:
        self.address, self.port = address, port
        self.listening = asyncio.Event()
        self._app, self._context, self._flag = app, context, flag

    async def run(self) -> None:
        """Serve until cancelled, once there is a certificate. Raises CannotStart."""
        with self._bound() as listener:
            await self._context.loaded.wait()
            server = _Server(
                uvicorn.Config(
                    self._app,
                    log_config=None,
                    access_log=False,
                    lifespan="off",
                    http="h11",
                    ws="none",
                    timeout_keep_alive=IDLE_SECONDS,
                    timeout_graceful_shutdown=LEAVE_SECONDS,
                    ssl_context_factory=lambda config, default: self._context.context,
                )
            )
            async with asyncio.TaskGroup() as tasks:
                work = tasks.create_task(server.serve(sockets=[listener]), name="uvicorn")
                self.listening.set()
                log.info("webhook listens", extra={"address": self.address, "port": self.port})
                try:
                    await asyncio.wait({work})
                finally:
                    server.should_exit = True
                    await asyncio.wait({work}, timeout=LEAVE_SECONDS + 1)

    def _bound(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.address, self.port))
            listener.listen(256)
        except OSError as error:
            listener.close()
            raise CannotStart(self._sentence(error)) from error
        self.port = listener.getsockname()[1]
        return listener

    def _sentence(self, error: OSError) -> str:
        where = f"port {self.port} on {self.address}"
        match error.errno:
            case errno.EADDRINUSE:
                return f"{where} is taken; stop what uses it or choose another with {self._flag}"
            case errno.EACCES:
                return f"{where} needs root; choose one above 1023 with {self._flag}"
            case _:
                return f"cannot listen on {where}: {error.strerror or error}; see {self._flag}"
