"""The HTTPS server of admission webhooks, with a certificate that may change while it serves."""

import logging

from starlette.types import ASGIApp

from kubenode.runtime.serverlimits import DEFAULT, HttpLimits
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.webserver import WebServer

log = logging.getLogger(__name__)


class HttpsServer(WebServer):
    """A Part. `port` 0 takes a free one, which `port` then returns; errors name `flag`."""

    name = "webhook server"

    def __init__(
        self,
        app: ASGIApp,
        context: LiveContext,
        *,
        address: str,
        port: int,
        flag: str,
        limits: HttpLimits = DEFAULT,
    ) -> None:
        super().__init__(app, address=address, port=port, flag=flag, context=context, limits=limits)

    def announce(self) -> None:
        log.info("webhook listens", extra={"address": self.address, "port": self.port})
