"""etcd forgets its history, and the API server starts anew, while the operator hears nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.control_plane import ControlPlane
from support.remedy_cluster import Cluster, operating
from support.remedy_engine import a_diagnoser
from support.replicas import marking_rule, say_of
from support.running import until
from support.slow_proxy import SlowProxy, slow_proxy

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect
from remedy.operator import RemedyOperator, RemedySettings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
ILL, ILL_FOR_A_WHILE, GONE, WELL = (f"compacted-{i}" for i in range(4))


@asynccontextmanager
async def behind(
    plane: ControlPlane, cluster: Cluster, folder: Path
) -> AsyncIterator[tuple[RemedyOperator, SlowProxy]]:
    """An operator whose way to the API server can fall silent."""
    async with slow_proxy(plane.server) as proxy:
        through = proxy.url.replace("http://", "https://")
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(plane.kubeconfig.read_text().replace(plane.server, through))
        kube = Kube(connect(str(kubeconfig)), timeout=3.0)
        settings = RemedySettings(accept_single_engine=True)
        operator = Cluster(kube, cluster.permits).operator(a_diagnoser(), settings=settings)
        try:
            async with operating(operator):
                yield operator, proxy
        finally:
            proxy.silent = False
            await kube.close()


async def test_what_was_compacted_is_listed_again_and_no_act_is_missed_or_false(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    for name in (ILL, ILL_FOR_A_WHILE, GONE, WELL):
        await cluster.node(name)
    await marking_rule(cluster)
    async with behind(plane, cluster, tmp_path) as (operator, proxy):
        proxy.silent = True
        await proxy.close()  # nothing that was on its way arrives later
        await say_of(cluster, (ILL, ILL_FOR_A_WHILE, GONE), "True")
        await say_of(cluster, [ILL_FOR_A_WHILE], "False")
        await cluster.kube.delete(paths.node(GONE))
        await asyncio.to_thread(plane.compact)
        plane.part("kube-apiserver").kill()
        plane.restart("kube-apiserver")
        proxy.silent = False
        await until(
            lambda: operator.informers.nodes.stats.relists > 0, 120, "the nodes are listed again"
        )
        job = await cluster.wait(lambda job: job.status.owned.cordon, 120)
        await until(operator.ready, 120, "all caches are current")
        await say_of(cluster, [ILL], "False")
        await cluster.wait(lambda job: job.status.phase.closed, 120)
    assert job.spec.node_name == ILL
    assert [each.spec.node_name for each in await cluster.jobs()] == [ILL]
    assert GONE not in operator.informers.nodes.cache
