"""A port of a pod is reached through the API server and a real kubelet."""

from typing import Any

import aiohttp
import pytest
from support.node_cluster import NodeCluster
from support.workloads import deployment

from kubenode.runtime.kube.official import connect
from kubenode.runtime.kube.portforward import PodPort, PortForward

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
PODS = "/api/v1/namespaces/default/pods?labelSelector=app%3Dforwarded"


def ready_pod(cluster: NodeCluster) -> str:
    """Name of the pod, "" while it is not ready."""
    for pod in cluster.cp.get(PODS)["items"]:
        conditions: list[dict[str, Any]] = pod["status"].get("conditions", [])
        if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
            return str(pod["metadata"]["name"])
    return ""


async def test_requests_reach_the_pod_and_a_closed_port_is_named(cluster: NodeCluster) -> None:
    web = deployment("forwarded", 1)
    cluster.apply(web)
    try:
        pod = cluster.until(lambda: ready_pod(cluster), 120, "the pod is ready")
        transport = connect(str(cluster.cp.kubeconfig))
        target = PodPort("default", pod, 8080)

        async def find() -> PodPort:
            return target

        forward = PortForward(transport, find)
        try:
            async with forward.listen() as port, aiohttp.ClientSession() as session:
                for _ in range(3):
                    async with session.get(f"http://127.0.0.1:{port}/index.html") as answer:
                        assert answer.status == 200
                target = PodPort("default", pod, 1)
            async with forward.listen() as port, aiohttp.ClientSession() as other:
                with pytest.raises(aiohttp.ClientError):
                    await other.get(f"http://127.0.0.1:{port}/")
                assert "port 1 of pod" in str(forward.problem)
        finally:
            await transport.close()
    finally:
        cluster.delete(web)
