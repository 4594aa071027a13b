"""F15 on an API server: heartbeats of all kubelets stop, the agents of their hosts go on."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest
from support.defender_world import an_ask
from support.embedded import EmbeddedPlane
from support.remedy_cluster import Cluster, now
from support.running import running, until
from support.storm_site import client, defending, plane, policy, site, zones

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Reason
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.errors import AlreadyExists

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
AGENTS = "kubenode-agents"
NODES = 12


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPlane]:
    with plane() as found:
        yield found


@pytest.fixture
async def cluster(server: EmbeddedPlane) -> AsyncIterator[Cluster]:
    async with site(server) as found:
        await policy(found, limits=[{"scope": "Cluster", "maxConcurrent": 3}])
        await zones(found, NODES // 3)
        yield found


@asynccontextmanager
async def agents(cluster: Cluster, nodes: list[str]) -> AsyncIterator[None]:
    """The agents of these hosts renew their Leases until the end of the block."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": AGENTS}}
    with suppress(AlreadyExists):
        await cluster.kube.create(paths.namespaces(), namespace)
    for node in nodes:
        await cluster.kube.create(
            paths.leases(AGENTS), {"metadata": {"name": node}, "spec": {"holderIdentity": node}}
        )

    async def renew() -> None:
        while True:
            for node in nodes:
                body = {"spec": {"renewTime": format_time(now()).replace("Z", "000Z")}}
                await cluster.kube.patch(paths.lease(AGENTS, node), body)
            await asyncio.sleep(0.05)

    async with running(renew()):
        yield
    for node in nodes:
        await cluster.kube.delete(paths.lease(AGENTS, node))


async def test_f15_everything_freezes_and_thaws_by_itself(
    server: EmbeddedPlane, cluster: Cluster
) -> None:
    names = [f"{zone}{i}" for zone in "abc" for i in range(NODES // 3)]
    kube = client(server.server)
    try:
        async with defending(kube, NODES) as defender, agents(cluster, names):
            path = defender.control.breakers.control_path
            for node in names:
                await cluster.say(node, "Ready", "Unknown")
            while path.frozen is None:  # it looks by itself every 15 s
                await defender.life_signs.check_hosts()
                await asyncio.sleep(0.2)
            verdict = await defender.ask(an_ask("a0"))
            while verdict.reason is Reason.STALE_DATA:  # a busy machine: informers lag
                await asyncio.sleep(0.1)
                verdict = await defender.ask(an_ask("a0"))
            assert verdict.reason is Reason.BREAKER_OPEN
            assert "control path" in verdict.message
            for node in names:
                await cluster.say(node, "Ready", "True")
            await until(lambda: path.frozen is None, 60, "it thaws on fresh heartbeats")
            assert defender.ledger.open() == []
    finally:
        await kube.close()
