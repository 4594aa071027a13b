"""/healthz, /readyz and /metrics over plain HTTP.

Alive means that the event loop turns: answering is the check, and whatever is wrong with the
cluster is no reason to be restarted. Ready means that this process can do its work; a check
answers "" when all is well, else a sentence that a person can act on.
"""

import logging
from collections.abc import Callable, Mapping

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from kubenode.runtime.listening import cannot_listen
from kubenode.runtime.process import forever

log = logging.getLogger(__name__)

Check = Callable[[], str]


class HealthServer:
    """A Part. `port` 0 takes a free one, which `port` then gives; `flag` is named in errors."""

    name = "health"

    def __init__(
        self,
        address: str,
        port: int,
        registry: CollectorRegistry,
        checks: Mapping[str, Check] | None = None,
        *,
        flag: str = "--health-port",
    ) -> None:
        self.address = address
        self.port = port
        self._registry = registry
        self._checks = dict(checks or {})
        self._flag = flag

    def add_check(self, name: str, check: Check) -> None:
        self._checks[name] = check

    async def run(self) -> None:
        """Serve until cancelled. Raises CannotStart if the port cannot be had."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/livez", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await self._bind(runner)
            await forever()
        finally:
            await runner.cleanup()

    async def _bind(self, runner: web.AppRunner) -> None:
        try:
            await web.TCPSite(runner, self.address, self.port).start()
        except OSError as error:
            raise cannot_listen(error, self.address, self.port, self._flag) from error
        self.port = runner.addresses[0][1]
        log.info("health server listens", extra={"address": self.address, "port": self.port})

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        answers = {name: check() for name, check in self._checks.items()}
        lines = [f"[-] {n}: {why}" if why else f"[+] {n}" for n, why in answers.items()]
        bad = any(answers.values())
        return web.Response(text="\n".join([*lines, ""]) or "ok\n", status=503 if bad else 200)

    async def _metrics(self, request: web.Request) -> web.Response:
        page = generate_latest(self._registry)
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})
