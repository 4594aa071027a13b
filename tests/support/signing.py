"""The operator's webhook alone, in a thread of its own: it can be taken away and come back."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from prometheus_client import CollectorRegistry
from support.registry_plane import RegistryPlane
from support.remedy_cluster import Cluster
from support.remedy_engine import a_diagnoser

from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect
from kubenode.runtime.process import serve
from remedy.webhook.webhook import RuleWebhook, RuleWebhookSettings


class Signing:
    """No controller runs, so jobs stay in the phase that a test has given them."""

    def __init__(self, plane: RegistryPlane, *spokesmen: str) -> None:
        self._plane = plane
        self._settings = RuleWebhookSettings(plane.port, hosts=("127.0.0.1",), spokesmen=spokesmen)

    def start(self) -> None:
        """Return once it listens. Raises TimeoutError."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="signing")
        self._thread.start()
        self._do(self._begin())

    def stop(self) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _begin(self) -> None:
        clock = SystemClock()
        self._kube = Kube(connect(str(self._plane.kubeconfig)))
        self._operator = Cluster(self._kube).operator(a_diagnoser())
        self._webhook = RuleWebhook(
            self._operator, self._kube, clock, CollectorRegistry(), self._settings
        )
        self._serving = self._loop.create_task(serve(self._webhook.parts))
        async with asyncio.timeout(40):
            await self._webhook.server.listening.wait()

    async def _end(self) -> None:
        self._serving.cancel()
        await asyncio.gather(self._serving, return_exceptions=True)
        self._webhook.close()
        self._operator.close()
        await self._kube.close()
