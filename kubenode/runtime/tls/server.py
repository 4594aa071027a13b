"""An HTTPS server as a part of a program, with a certificate that may change while it serves."""

import asyncio
import logging

from starlette.types import ASGIApp

from kubenode.runtime.listening import listen
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.webserver import serve

log = logging.getLogger(__name__)


class HttpsServer:
    """A Part. `port` 0 takes a free one, which `port` then gives; `flag` is named in errors."""

    name = "webhook server"

    def __init__(
        self, app: ASGIApp, context: LiveContext, *, address: str, port: int, flag: str
    ) -> None:
        self.address, self.port = address, port
        self.listening = asyncio.Event()
        self._app, self._context, self._flag = app, context, flag

    async def run(self) -> None:
        """Serve until cancelled, once there is a certificate. Raises CannotStart."""
        with listen(self.address, self.port, self._flag) as listener:
            self.port = listener.getsockname()[1]
            await self._context.loaded.wait()
            self.listening.set()
            log.info("webhook listens", extra={"address": self.address, "port": self.port})
            await serve(self._app, listener, tls=lambda: self._context.context)
