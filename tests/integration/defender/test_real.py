"""Kube Defender on a real kube-apiserver: askers at once, a restart, a ghost, over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.control_plane import ControlPlane
from support.defender_world import a_policy, an_ask
from support.defending import rule_by
from support.remedy_cluster import Cluster, connected, install_crds
from support.running import running, until

from defender.client import HttpPermits
from defender.server.auth.gate import open_gate
from defender.server.http.app import create_app
from defender.server.http.shown import ShownService
from defender.server.server import DefenderServer
from defender.service import Defender, DefenderSettings
from kubenode.api.v1alpha1 import Permit, Reason
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope, Rate
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.process import serve

pytestmark = pytest.mark.integration
PERMITS = paths.custom("permits")
POLICIES = paths.custom("defenderpolicies")
NODES, AT_ONCE = 12, 3
RATE = Rate(count=100, per=timedelta(hours=1), burst=50)


@pytest.fixture(scope="module")
def with_crds(control_plane: ControlPlane) -> ControlPlane:
    install_crds(control_plane)
    return control_plane


async def empty(kube: Kube) -> None:
    for collection in (PERMITS, POLICIES, paths.nodes()):
        for obj in (await kube.get(collection))["items"]:
            await kube.delete(f"{collection}/{obj['metadata']['name']}")


@pytest.fixture
async def cluster(with_crds: ControlPlane) -> AsyncIterator[Cluster]:
    """NODES healthy nodes and a policy that lets AT_ONCE of them be disrupted."""
    async with connected(with_crds) as found:
        await empty(found.kube)
        limit = Limit(scope=LimitScope.CLUSTER, max_concurrent=AT_ONCE, rate=RATE)
        await rule_by(found.kube, a_policy(limit))
        for i in range(NODES):
            await found.node(f"n{i}")
        yield found
        await empty(found.kube)


@asynccontextmanager
async def defending(kube: Kube, round_: float = 0.2) -> AsyncIterator[Defender]:
    settings = DefenderSettings(round=round_)
    defender = Defender(kube, AlwaysLeader(), SystemClock(), CollectorRegistry(), settings)
    async with running(serve(defender.parts, defender.ground)):
        await until(lambda: not defender.ready(), 60, "Kube Defender is ready")
        await until(lambda: len(defender.census) == NODES, 60, "all nodes are seen")
        counted = lambda: defender.control.displaced is not None  # noqa: E731
        await until(counted, 60, "displaced pods are counted")
        yield defender


def living(node: str, **change: Any) -> Any:
    """A holder of a kind that Kube Defender cannot look at, which it therefore takes to live."""
    holder = Holder(kind="Test", name=f"test-{node}", uid=f"uid-{node}")
    return an_ask(node, **({"holder": holder} | change))


async def open_permits(kube: Kube) -> list[str]:
    found = (await kube.get(PERMITS))["items"]
    return [p["metadata"]["name"] for p in found if p.get("status", {}).get("state") != "Released"]


async def test_askers_at_once_over_http_get_the_limit_and_no_more(cluster: Cluster) -> None:
    async with defending(cluster.kube) as defender:
        clock = SystemClock()
        app = create_app(defender, ShownService(defender, clock), open_gate(clock))
        server = DefenderServer(app)
        async with running(server.run()):
            await server.listening.wait()
            clients = [HttpPermits(f"http://127.0.0.1:{server.port}") for _ in range(4)]
            asks = [
                clients[(i + again) % 4].ask(living(f"n{i}"))
                for i in range(NODES)
                for again in range(3)
            ]
            verdicts = await asyncio.gather(*asks)
            granted = {v.permit for v in verdicts if v.allowed}
            assert len(granted) == AT_ONCE
            assert set(await open_permits(cluster.kube)) == granted
            assert {v.reason for v in verdicts} == {Reason.GRANTED, Reason.CONCURRENCY_LIMIT}
            for name in granted:
                assert (await clients[0].check(name, 60)).allowed
                assert (await clients[0].renew(name)).allowed
                await clients[0].release(name)
            assert await open_permits(cluster.kube) == []
            for client in clients:
                await client.close()


async def test_a_restart_between_two_questions_changes_no_answer(cluster: Cluster) -> None:
    async with defending(cluster.kube) as defender:
        held = [(await defender.ask(living(f"n{i}"))).permit for i in range(AT_ONCE)]
        assert all(held)
    async with defending(cluster.kube) as defender:
        verdicts = await asyncio.gather(*(defender.ask(living(f"n{i}")) for i in range(NODES)))
        assert [v.permit for v in verdicts if v.allowed] == held
        await defender.release(held[0])
        assert (await defender.ask(living("n11"))).allowed
        assert len(await open_permits(cluster.kube)) == AT_ONCE


async def test_f12_the_slot_of_a_ghost_is_free_within_a_round(cluster: Cluster) -> None:
    async with defending(cluster.kube) as defender:
        ghost = (await defender.ask(an_ask("n0"))).permit  # its job does not exist
        gone = (await defender.ask(living("n1"))).permit
        stays = (await defender.ask(living("n2"))).permit
        await cluster.kube.delete(paths.node("n1"))
        await until(lambda: len(defender.ledger.open()) == 1, 60, "two slots are free")
        assert await open_permits(cluster.kube) == [stays]
        for name in (ghost, gone):
            permit = await cluster.kube.get(f"{PERMITS}/{name}", Permit.from_server)
            assert permit.status.released_at is not None


async def test_a_missing_policy_is_made_and_its_status_told(cluster: Cluster) -> None:
    await cluster.kube.delete(f"{POLICIES}/default")
    async with defending(cluster.kube) as defender:
        found: dict[str, Any] = {}
        await until(lambda: bool(defender.policies.get("default")), 60, "default is there")

        def told() -> bool:
            policy = defender.policies.get("default")
            return policy is not None and bool(policy.status.conditions)

        defender.reporter._written_at = None
        await until(told, 60, "its status is written")
        found = await cluster.kube.get(f"{POLICIES}/default")
        assert found["status"]["healthy"] == NODES
        assert found["status"]["conditions"][0]["type"] == "NotEnforced"
        assert (await defender.ask(living("n0", dry_run=True))).allowed
