"""A kubelet's key writes its Node at the largest size again and again; other nodes are healed.

No policy bounds what a kubelet writes about its own Node (docs/security.md).
"""

import asyncio
import logging
import time
from contextlib import suppress

import pytest
from support.control_plane import ControlPlane
from support.remedy_cluster import Cluster, condition, operating
from support.remedy_engine import two_engines
from support.replicas import FAULT, marking_rule
from support.running import running, until

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH, Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.official import connect

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

LARGE = "large-1"
ILL = [f"beside-large-{i}" for i in range(8)]
SIZE, WRITES = 1_000_000, 10
LESS_THAN = "<"
"""Six characters of JSON each, in what the API server sends to watches."""
PAUSE_SECONDS = 1.0
LIMIT_SECONDS = 10.0
log = logging.getLogger(__name__)


class LargeWriter:
    """The kubelet of a node: writes that alternate, so that each is a change."""

    def __init__(self, plane: ControlPlane) -> None:
        user = plane.kubeconfig_for(f"system:node:{LARGE}", ["system:nodes"])
        self._kube = Kube(connect(str(user)))
        self.written = 0

    async def run(self) -> None:
        """Write once a second until cancelled."""
        try:
            while True:
                large = condition("Large", "True", f"R{self.written % 2}")
                large["message"] = LESS_THAN * SIZE
                body = {"status": {"conditions": [large]}}
                with suppress(KubeError):
                    await self._kube.patch(paths.node(LARGE, "status"), body, STRATEGIC_PATCH)
                    self.written += 1
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            await self._kube.close()


async def test_nodes_are_healed_while_another_is_written_at_one_megabyte(
    plane: ControlPlane, cluster: Cluster
) -> None:
    for name in (LARGE, *ILL):
        await cluster.node(name)
    await marking_rule(cluster)
    writer = LargeWriter(plane)
    async with operating(cluster.operator(two_engines())) as operator, running(writer.run()):
        await until(lambda: writer.written > 0, 60, "the kubelet writes")
        slowest = max([await seconds_to_job(cluster, name) for name in ILL])
        await until(lambda: writer.written >= WRITES, 60, "the kubelet has written")
        stats = operator.informers.nodes.stats
        assert (stats.errors, stats.relists, stats.undecodable) == (0, 0, 0)
    log.info("%d writes of 1 MB, slowest job after %.2f s", writer.written, slowest)
    assert slowest < LIMIT_SECONDS


async def seconds_to_job(cluster: Cluster, name: str) -> float:
    began = time.monotonic()
    await cluster.say(name, FAULT, "True")
    await cluster.wait(lambda job: job.spec.node_name == name)
    return time.monotonic() - began
