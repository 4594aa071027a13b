"""HTTP server of Kube Defender's API."""

import logging

from defender.server.http.app import DefenderApi
from kubenode.runtime.serverlimits import DEFAULT, HttpLimits
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.webserver import WebServer

log = logging.getLogger(__name__)


class DefenderServer(WebServer):
    """A part. `port` 0 takes a free port, which `port` then returns; errors name `flag`.

    context: TLS context, None for plain HTTP.
    """

    name = "defender server"

    def __init__(
        self,
        app: DefenderApi,
        *,
        address: str = "127.0.0.1",
        port: int = 0,
        context: LiveContext | None = None,
        flag: str = "--listen-port",
        limits: HttpLimits = DEFAULT,
    ) -> None:
        self._how = "plain" if context is None else "TLS"
        super().__init__(
            app,
            address=address,
            port=port,
            flag=flag,
            context=context,
            limits=limits,
            leaving=app.streams.close,
        )

    def announce(self) -> None:
        where = {"address": self.address, "port": self.port, "how": self._how}
        log.info("defender listens", extra=where)
