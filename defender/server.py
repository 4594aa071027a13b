"""Kube Defender's API on a port, as a part of a program."""

import asyncio
import logging

from defender.http.app import Api
from kubenode.runtime.listening import listen
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.webserver import serve

log = logging.getLogger(__name__)


class DefenderServer:
    """A Part. `port` 0 takes a free one, which `port` then gives; `flag` is named in errors.

    context  None: plain HTTP
    """

    name = "defender server"

    def __init__(
        self,
        app: Api,
        *,
        address: str = "127.0.0.1",
        port: int = 0,
        context: LiveContext | None = None,
        flag: str = "--listen-port",
    ) -> None:
        self.address, self.port = address, port
        self.listening = asyncio.Event()
        self._app, self._context, self._flag = app, context, flag

    async def run(self) -> None:
        """Serve until cancelled, once there is a certificate. Raises CannotStart."""
        context = self._context
        with listen(self.address, self.port, self._flag) as listener:
            self.port = listener.getsockname()[1]
            if context is not None:
                await context.loaded.wait()
            self.listening.set()
            how = "plain" if context is None else "TLS"
            where = {"address": self.address, "port": self.port, "how": how}
            log.info("defender listens", extra=where)
            tls = None if context is None else lambda: context.context
            await serve(self._app, listener, tls=tls, leaving=self._app.streams.close)
