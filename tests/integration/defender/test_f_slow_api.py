"""A slow, silent or absent API server: nothing wrong is granted, and all goes on by itself."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from support.defender_world import an_ask
from support.embedded import EmbeddedPlane
from support.remedy_cluster import Cluster
from support.running import until
from support.slow_proxy import SlowProxy, slow_proxy
from support.storm_site import client, defending, open_permits, plane, policy, sees, site, zones

from defender.service import Defender
from kubenode.api.v1alpha1 import Reason, Verdict
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.kube.client import Kube

pytestmark = pytest.mark.integration
NODES, AT_ONCE = 12, 3
BLIND = {Reason.STALE_DATA, Reason.STORE_UNAVAILABLE}
EVERYTHING = {"trip": {"minNodes": 1_000_000}}


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPlane]:
    with plane() as found:
        yield found


@pytest.fixture
async def cluster(server: EmbeddedPlane) -> AsyncIterator[Cluster]:
    async with site(server) as found:
        limit = {"scope": "Cluster", "maxConcurrent": AT_ONCE}
        await policy(found, limits=[limit], breaker=EVERYTHING)
        await zones(found, NODES // 3)
        yield found


@pytest.fixture
async def proxy(server: EmbeddedPlane) -> AsyncIterator[SlowProxy]:
    async with slow_proxy(server.server) as found:
        yield found


@pytest.fixture
async def slow(proxy: SlowProxy) -> AsyncIterator[Kube]:
    """A client that reaches the server through the proxy only."""
    kube = client(proxy.url)
    yield kube
    proxy.delay, proxy.silent = 0.0, False
    await kube.close()


def living(node: str) -> Any:
    """A holder of a kind that Kube Defender cannot look at, which it therefore takes to live."""
    return an_ask(node, holder=Holder(kind="Test", name=f"test-{node}", uid=f"uid-{node}"))


async def all_ask(defender: Defender, cluster: Cluster) -> list[Verdict]:
    nodes = [f"{zone}{i}" for zone in "abc" for i in range(NODES // 3)]
    return await asyncio.gather(*(defender.ask(living(node)) for node in nodes))


async def test_a_slow_server_is_asked_for_each_grant_and_the_limit_holds(
    cluster: Cluster, slow: Kube, proxy: SlowProxy
) -> None:
    async with defending(slow, NODES) as defender:
        proxy.delay = 0.4
        verdicts = await all_ask(defender, cluster)
        granted = {v.permit for v in verdicts if v.allowed}
        assert granted == await open_permits(cluster)
        assert len(granted) == AT_ONCE
        assert {v.reason for v in verdicts} <= {Reason.GRANTED, Reason.CONCURRENCY_LIMIT} | BLIND


async def test_a_server_that_says_nothing_makes_every_answer_no_until_it_speaks(
    cluster: Cluster, slow: Kube, proxy: SlowProxy
) -> None:
    async with defending(slow, NODES) as defender:
        before = {v.permit for v in await all_ask(defender, cluster) if v.allowed}
        assert len(before) == AT_ONCE
        proxy.silent = True
        await until(lambda: bool(defender.ready()), 60, "it knows that it is blind")
        verdict = await defender.ask(living("a0"))
        assert verdict.reason in BLIND
        for permit in before:
            assert not (await defender.check(permit, 1)).allowed
        proxy.silent = False
        await until(lambda: sees(defender), 60, "it sees again")
        assert {v.permit for v in await all_ask(defender, cluster) if v.allowed} == before
        assert await open_permits(cluster) == before


async def test_f46_a_server_that_is_away_while_nodes_are_counted_halts_nothing_for_good(
    server: EmbeddedPlane, cluster: Cluster
) -> None:
    kube = client(server.server)
    try:
        async with defending(kube, NODES) as defender:
            held = next(v.permit for v in await all_ask(defender, cluster) if v.allowed)
            server.kill()
            await until(lambda: bool(defender.ready()), 60, "it knows that it is blind")
            assert not (await defender.ask(living("a0"))).allowed
            server.start()
            await until(lambda: sees(defender), 60, "it sees again")
            await defender.release(held)
            assert held not in await open_permits(cluster)
            assert sum(v.allowed for v in await all_ask(defender, cluster)) == AT_ONCE
    finally:
        await kube.close()
