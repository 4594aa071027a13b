"""A client that calls the provider as Cluster Autoscaler does, and the provider for tests.

The order of the calls of one loop is that of Cluster Autoscaler: Refresh, the groups, the group of
each node, then size and instances of each group. The program itself is not run.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from prometheus_client import CollectorRegistry
from support.control_plane import ControlPlane
from support.machine_world import CHARTS, closing
from support.pki import Authority, Identity
from support.running import running, until

from defender.client import Permits
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect
from kubenode.runtime.process import serve
from kubenode.runtime.tls.files import PemFiles
from machine.autoscaler.contract import MESSAGES, SERVICE, message_names
from machine.autoscaler.metrics import AutoscalerMetrics
from machine.autoscaler.nodebytes import MESSAGES as KUBERNETES
from machine.autoscaler.nodegroup import NodeGroupError
from machine.autoscaler.provider import AutoscalerProvider
from machine.autoscaler.server import AutoscalerServer

PROVIDER = "system:serviceaccount:kubenode-system:kubenode-autoscaler"
PROVIDER_GROUPS = ("system:serviceaccounts", "system:serviceaccounts:kubenode-system")
HOST = "localhost"
CALL_SECONDS = 30.0
"""The autoscaler's default is 5 s, which a busy machine may exceed."""
PODS = "/api/v1/namespaces/default/pods"


@dataclass(frozen=True)
class ProviderCertificates:
    """Of the server and of the client, by one authority."""

    server: Identity
    client: Identity
    authority: Path

    @classmethod
    def issue(cls, folder: Path) -> "ProviderCertificates":
        """Write them into the folder, in place of those that are there."""
        folder.mkdir(exist_ok=True)
        authority = Authority(folder)
        server = authority.issue("server", "autoscaler-provider", sans=[HOST])
        return cls(server, authority.issue("client", "cluster-autoscaler"), authority.cert_file)

    @property
    def files(self) -> PemFiles:
        return PemFiles(self.server.cert_file, self.server.key_file, self.authority)

    def channel(self, port: int) -> Any:
        files = self.authority, self.client.key_file, self.client.cert_file
        credentials = grpc.ssl_channel_credentials(*(file.read_bytes() for file in files))
        return grpc.aio.secure_channel(f"{HOST}:{port}", credentials)


@asynccontextmanager
async def providing(
    cp: ControlPlane, permits: Permits, certificates: ProviderCertificates
) -> AsyncIterator[int]:
    """The port of a provider that runs under its rights in charts/kubenode."""
    cp.kubectl("apply", "-f", CHARTS / "autoscaler" / "rbac.yaml")
    who = str(cp.kubeconfig_for(PROVIDER, PROVIDER_GROUPS))
    async with closing(Kube(connect(who))) as kube:
        provider = AutoscalerProvider(kube, SystemClock(), permits, gpu_label="gpu")
        metrics = AutoscalerMetrics(CollectorRegistry())
        server = AutoscalerServer(provider, metrics, HOST, 0, certificates.files)

        def ready() -> bool:
            try:
                provider.check_fresh()
            except NodeGroupError:
                return False
            return server.port != 0

        async with running(serve([server], provider.informers)):
            await until(ready, 120, "the provider is ready")
            yield server.port


@dataclass
class GroupState:
    """A group as one loop finds it. `nodes`: names of its registered Nodes."""

    low: int
    high: int
    target: int
    instances: Mapping[str, Any]
    nodes: list[str] = field(default_factory=list)

    def states(self) -> list[int]:
        return sorted(status.instanceState for status in self.instances.values())


class ClusterAutoscaler:
    """The client. `kube`: an administrator's, as the autoscaler reads Nodes and Pods itself."""

    def __init__(self, channel: Any, kube: Kube) -> None:
        self._channel, self._kube = channel, kube

    async def call(self, method: str, **fields: Any) -> Any:
        request, response = (MESSAGES[name] for name in message_names(method))
        invoke = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return await invoke(request(**fields), timeout=CALL_SECONDS)

    async def error(self, method: str, **fields: Any) -> tuple[str, str]:
        """The status and the text of a call that must fail."""
        try:
            await self.call(method, **fields)
        except grpc.aio.AioRpcError as error:
            return error.code().name, error.details() or ""
        raise AssertionError(f"{method} did not fail")

    async def observe(self) -> dict[str, GroupState]:
        """The reads of one loop."""
        await self.call("Refresh")
        groups: dict[str, GroupState] = {}
        for group in (await self.call("NodeGroups")).nodeGroups:
            instances = (await self.call("NodeGroupNodes", id=group.id)).instances
            groups[group.id] = GroupState(
                group.minSize,
                group.maxSize,
                (await self.call("NodeGroupTargetSize", id=group.id)).targetSize,
                {instance.id: instance.status for instance in instances},
            )
        for node in (await self._kube.get(paths.nodes()))["items"]:
            answer = await self.call("NodeGroupForNode", node=handle(node))
            if answer.nodeGroup.id:
                groups[answer.nodeGroup.id].nodes.append(node["metadata"]["name"])
        return groups

    async def template(self, group: str) -> Any:
        answer = await self.call("NodeGroupTemplateNodeInfo", id=group)
        assert answer.nodeInfo == answer.nodeBytes, "versions before and after 1.35 read the same"
        return KUBERNETES["Node"].FromString(answer.nodeBytes)

    async def scale_up(self, group: str) -> int:
        """Add a node for each pending pod that the template of the group has room for."""
        node = await self.template(group)
        room = int(node.status.allocatable["cpu"].string)
        pods = (await self._kube.get(PODS))["items"]
        pending = [pod for pod in pods if not pod["spec"].get("nodeName") and _cpu(pod) <= room]
        assert all(2 * _cpu(pod) > room for pod in pending), "one pod fills a node"
        await self.call("NodeGroupIncreaseSize", id=group, delta=len(pending))
        return len(pending)

    async def delete(self, group: str, names: Sequence[str]) -> None:
        """Delete Nodes by name."""
        nodes = [handle(await self._kube.get(paths.node(name))) for name in names]
        await self.call("NodeGroupDeleteNodes", id=group, nodes=nodes)

    async def delete_failed(self, group: str) -> int:
        """Delete the instances with an error, under the names that the autoscaler gives them."""
        instances = (await self.observe())[group].instances.items()
        failed = [id_ for id_, status in instances if status.errorInfo.errorCode]
        nodes = [{"name": id_, "providerID": id_} for id_ in failed]
        await self.call("NodeGroupDeleteNodes", id=group, nodes=nodes)
        return len(failed)


@asynccontextmanager
async def autoscaling(
    port: int, certificates: ProviderCertificates, kube: Kube
) -> AsyncIterator[ClusterAutoscaler]:
    """A client of the provider at the port."""
    async with certificates.channel(port) as channel:
        yield ClusterAutoscaler(channel, kube)


def handle(node: dict[str, Any]) -> dict[str, str]:
    """The node in the form of the contract."""
    return {
        "name": node["metadata"]["name"],
        "providerID": node.get("spec", {}).get("providerID", ""),
    }


def a_pending_pod(name: str, cpu: str) -> dict[str, Any]:
    """A pod that no scheduler looks at."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "none", "containers": [container]},
    }


def _cpu(pod: dict[str, Any]) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
