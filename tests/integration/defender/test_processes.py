"""Three Kube Defender processes on one real Redis, killed at random: no limit is ever broken.

KUBENODE_SOAK_SECONDS sets how long; the figures are printed.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import pytest
from support.control_plane import ControlPlane
from support.daemons import free_port
from support.defender_world import a_policy
from support.defending import rule_by
from support.programs import Program
from support.redis_askers import PERMITS, Asker, Count, Figures, observe
from support.redis_server import RedisServer
from support.remedy_cluster import Cluster, connected, install_crds
from support.running import running

from defender.client import DefenderUnreachable, HttpPermits
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope, PerNode
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound

pytestmark = pytest.mark.integration
SECONDS = float(os.environ.get("KUBENODE_SOAK_SECONDS", "15"))
ASKERS, REPLICAS, ZONES = 64, 3, 8
AT_ONCE, IN_ZONE = 8, 2
NAMESPACE = "kubenode-system"
ZONE = "topology.kubernetes.io/zone"
POLICIES = paths.custom("defenderpolicies")
READY_SECONDS = 90.0


def zone_of(node: str) -> str:
    return f"z{int(node[1:]) % ZONES}"


async def prepare(cluster: Cluster) -> None:
    kube = cluster.kube
    await empty(kube)
    try:
        await kube.get(paths.namespace(NAMESPACE))
    except NotFound:
        await kube.create(paths.namespaces(), {"metadata": {"name": NAMESPACE}})
    limits = (
        Limit(scope=LimitScope.CLUSTER, max_concurrent=AT_ONCE),
        Limit(scope=LimitScope.LABEL, label=ZONE, max_concurrent=IN_ZONE),
    )
    policy = a_policy(*limits, per_node=PerNode(max_acts=1000))
    await rule_by(kube, policy)
    for i in range(ASKERS):
        await cluster.node(f"n{i}", labels={ZONE: zone_of(f"n{i}")})


async def empty(kube: Kube) -> None:
    for collection in (PERMITS, POLICIES, paths.nodes()):
        await kube.call("DELETE", collection)


class Replica:
    """One `kubenode run defender`, on a port that it keeps."""

    def __init__(self, number: int, kubeconfig: Path, redis: str, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        words = (
            *("run", "defender", "--kubeconfig", str(kubeconfig), "--namespace", NAMESPACE),
            *("--listen-port", str(self.port), "--health-port", "0", "--redis-url", redis),
            *("--cluster", "test"),
        )
        self.program = Program(f"defender-{number}", words, folder)

    async def ready(self) -> None:
        end = monotonic() + READY_SECONDS
        while not await self.answers():
            assert monotonic() < end, self.program.log[-3000:]
            await asyncio.sleep(0.1)

    async def answers(self) -> bool:
        client = HttpPermits(self.url)
        try:
            return (await self._said(client)) == ""
        finally:
            await client.close()

    async def _said(self, client: HttpPermits) -> str:
        try:
            found = await client.check("none", 0)
        except DefenderUnreachable as error:  # it does not listen yet
            return str(error) or "no answer"
        return "" if found.message.startswith("no permit") else found.message


async def first_ready(found: list[Replica], end: float) -> None:
    """Until one of them answers, or the time is over."""
    while monotonic() < end:
        for replica in found:
            if await replica.answers():
                return
        await asyncio.sleep(0.1)


@asynccontextmanager
async def replicas(plane: ControlPlane, redis: str, folder: Path) -> AsyncIterator[list[Replica]]:
    made = [Replica(i, plane.kubeconfig, redis, folder) for i in range(REPLICAS)]
    try:
        for replica in made:
            replica.program.start()
        for replica in made:
            await replica.ready()
        yield made
    finally:
        for replica in made:
            replica.program.kill()


async def kill_at_random(found: list[Replica], end: float) -> int:
    """SIGKILL, and a new process at once; one that answers is always left. How many were killed."""
    chance, killed = random.Random(SECONDS), 0
    while (left := end - monotonic()) > 0:
        await asyncio.sleep(min(left, chance.uniform(0.5, 4)))
        victim = chance.choice(found)
        await first_ready([replica for replica in found if replica is not victim], end)
        victim.program.kill()
        victim.program.start()
        killed += 1
    return killed


@pytest.mark.timeout(SECONDS + 300)
async def test_three_processes_killed_at_random_break_no_limit_and_free_every_permit(
    control_plane: ControlPlane, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    install_crds(control_plane)
    on_record, by_answer = (Count(AT_ONCE, IN_ZONE, zone_of) for _ in range(2))
    figures = Figures()
    with RedisServer(tmp_path) as redis:
        async with connected(control_plane) as cluster:
            await prepare(cluster)
            following = asyncio.Event()
            async with (
                running(observe(cluster.kube, on_record, following)),
                replicas(control_plane, redis.url, tmp_path) as found,
            ):
                await following.wait()
                clients = [HttpPermits(replica.url) for replica in found]
                began = monotonic()
                end = began + SECONDS
                async with asyncio.TaskGroup() as tasks:
                    for i in range(ASKERS):
                        asker = Asker(i, f"n{i}", clients, by_answer, figures)
                        tasks.create_task(asker.run(end))
                    killed = await kill_at_random(found, end)
                told = figures.told(monotonic() - began) | {"killed": killed}
                for client in clients:
                    await client.close()
                left = (await cluster.kube.get(PERMITS))["items"]
            await empty(cluster.kube)
    for name, value in told.items():
        record_property(name, value)
    print(told, "peak", on_record.peak, by_answer.peak)  # noqa: T201  shown with -s
    assert on_record.violations == []
    assert by_answer.violations == []
    assert figures.lost == []
    assert figures.stuck == []
    assert [p["metadata"]["name"] for p in left if p["status"].get("state") != "Released"] == []
    assert on_record.peak == AT_ONCE
    assert killed >= min(3, SECONDS / 5)
