"""A FakeKube with an empty collection of Nodes, and a client for it."""

from collections.abc import AsyncIterator

import pytest
from support.fake_kube import FakeKube

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport


@pytest.fixture
async def server() -> AsyncIterator[FakeKube]:
    async with FakeKube() as fake:
        fake.objects[paths.nodes()] = {}
        yield fake


@pytest.fixture
async def kube(server: FakeKube) -> AsyncIterator[Kube]:
    client = Kube(PlainTransport(server.url), timeout=2.0)
    yield client
    await client.close()
