"""Answers that would have every client list again at once, again and again."""

import asyncio
import json

from aiohttp import web
from support.fake_kube import FakeKube, status
from support.running import NODES, following, until

from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport


async def test_a_server_that_has_forgotten_everything_is_not_listed_in_a_storm() -> None:
    """410 for every watch, as while definitions change or etcd is compacted too often."""

    async def gone(request: web.Request) -> web.StreamResponse | None:
        if not request.query.get("watch"):
            return None
        line = {"type": "ERROR", "object": status(410, "Expired")}
        return web.Response(text=json.dumps(line) + "\n")

    async with FakeKube() as server:
        server.objects[NODES] = {}
        server.put(NODES, {"metadata": {"name": "n1"}})
        server.faults.append(gone)
        kube = Kube(PlainTransport(server.url))
        async with following(kube, backoff=(0.5, 10.0)) as informer:
            await asyncio.sleep(2.5)
            assert 2 <= server.lists() <= 6, "the first comes at once, the others are spread"
            server.put(NODES, {"metadata": {"name": "n2"}})
            server.faults.remove(gone)
            await until(lambda: "n2" in informer.cache, 30)
        await kube.close()
