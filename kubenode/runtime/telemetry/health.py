"""/healthz, /readyz and /metrics over plain HTTP.

Alive means that the event loop turns: the answer itself is the check, and a fault of the cluster is
no reason for a restart. Ready means that this process can do its work. A check returns "" if all is
well, else a sentence that a person can act on.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from kubenode.runtime.serverlimits import DEFAULT, HttpLimits
from kubenode.runtime.webserver import WebServer

log = logging.getLogger(__name__)

Check = Callable[[], str]
SHARE = 5
"""A page of metrics is reused for SHARE times as long as it took to make, so that clients take a
sixth of the event loop's time at most.
"""


class HealthServer(WebServer):
    """A Part. `port` 0 takes a free one, which `port` then returns; errors name `flag`."""

    name = "health"

    def __init__(
        self,
        address: str,
        port: int,
        registry: CollectorRegistry,
        checks: Mapping[str, Check] | None = None,
        *,
        flag: str = "--health-port",
        limits: HttpLimits = DEFAULT,
    ) -> None:
        self._registry = registry
        self._checks = dict(checks or {})
        self._page: bytes | None = None
        self._until = 0.0
        answers = {
            "/healthz": self._healthz,
            "/livez": self._healthz,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
        }
        app = Starlette(routes=[Route(path, each) for path, each in answers.items()])
        super().__init__(app, address=address, port=port, flag=flag, limits=limits)

    def add_check(self, name: str, check: Check) -> None:
        self._checks[name] = check

    def announce(self) -> None:
        log.info("health server listens", extra={"address": self.address, "port": self.port})

    async def _healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readyz(self, request: Request) -> Response:
        answers = {name: check() for name, check in self._checks.items()}
        lines = [f"[-] {n}: {why}" if why else f"[+] {n}" for n, why in answers.items()]
        bad = any(answers.values())
        return PlainTextResponse("\n".join([*lines, ""]) or "ok\n", 503 if bad else 200)

    async def _metrics(self, request: Request) -> Response:
        now = asyncio.get_running_loop().time
        if self._page is None or now() >= self._until:
            began = now()
            self._page = generate_latest(self._registry)
            self._until = now() + SHARE * (now() - began)
        return Response(self._page, headers={"Content-Type": CONTENT_TYPE_LATEST})
