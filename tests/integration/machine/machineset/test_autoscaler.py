"""MachineSets as node groups: a client that speaks as Cluster Autoscaler does scales them.

API server, operator and Kube Defender are real, and so is gRPC with certificates; the cloud is in
memory. The program cluster-autoscaler is not run.
"""

import asyncio
import http.client
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from support.cluster_autoscaler import (
    HOST,
    PODS,
    PROVIDER,
    PROVIDER_GROUPS,
    ClusterAutoscaler,
    ProviderCertificates,
    a_pending_pod,
    autoscaling,
    handle,
    providing,
)
from support.command import started
from support.control_plane import ControlPlane
from support.daemons import free_port
from support.defender_world import a_policy
from support.defending import defending
from support.machine_sets import CLASS, Site, a_set, site
from support.machine_world import CHARTS, closing, until
from support.remedy_cluster import connected

from kubenode.api.v1alpha1 import Disruption
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope, PerNode
from kubenode.providers.instances import ErrorCode, InstanceError
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Invalid, KubeError, NotFound
from kubenode.runtime.kube.official import connect
from machine.autoscaler.contract import GroupInstanceState, InstanceErrorClass
from machine.ground import MachineSettings
from machine.meltdown import MeltdownTimes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

GROUP = "scaled"
SETTINGS = MachineSettings(freeze=MeltdownTimes(thaw=0.5))
NODE = {
    "labels": {"node.kubernetes.io/instance-type": "large"},
    "capacity": {"cpu": "4", "memory": "16Gi"},
    "allocatable": {"cpu": "3"},
}
RUNNING = GroupInstanceState.RUNNING
ONE_AT_ONCE = Limit(
    scope=LimitScope.CLUSTER,
    max_concurrent=1,
    classes=[Disruption.HOST, Disruption.PODS, Disruption.NODE],
)


@dataclass
class ScaledSite:
    """A site with Kube Defender and the provider. `most`: permits that were held at once."""

    site: Site
    cp: ControlPlane
    certificates: ProviderCertificates
    defender: Any
    most: int = 0

    @property
    def kube(self) -> Kube:
        return self.site.kube

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ClusterAutoscaler]:
        """A new provider and a new client, as after a restart of both."""
        async with (
            providing(self.cp, self.defender, self.certificates) as port,
            autoscaling(port, self.certificates, self.kube) as client,
        ):
            yield client

    async def set_class(self, **spec: Any) -> None:
        await self.kube.patch(paths.custom("machineclasses", CLASS), {"spec": spec})

    async def pause(self, pauses: list[dict[str, str]]) -> None:
        path = paths.custom("defenderpolicies", "default")
        await self.kube.patch(path, {"spec": {"pauses": pauses}})

    async def count_permits(self) -> None:
        """Remember the greatest number of permits that are held. A new one has no status yet."""
        permits = (await self.kube.get(paths.custom("permits")))["items"]
        states = [permit.get("status", {}).get("state", "Granted") for permit in permits]
        self.most = max(self.most, states.count("Granted"))


@pytest.fixture
async def here(cluster: ControlPlane, tmp_path: Path) -> AsyncIterator[ScaledSite]:
    policy = a_policy(ONE_AT_ONCE, per_node=PerNode(max_acts=1000))
    async with (
        connected(cluster) as hands,
        defending(cluster, hands, policy) as defender,
        site(cluster, tmp_path, SETTINGS, defender=defender) as place,
    ):
        certificates = ProviderCertificates.issue(tmp_path / "autoscaler")
        scaled = ScaledSite(place, cluster, certificates, defender)
        await scaled.set_class(node=NODE)
        yield scaled


async def is_group(client: ClusterAutoscaler) -> bool:
    return GROUP in await client.observe()


async def runs(client: ClusterAutoscaler, count: int) -> list[str]:
    """The Nodes of the group, oldest first, once so many run and none else is there."""

    async def list_running() -> list[str] | None:
        state = (await client.observe())[GROUP]
        well = state.states() == [RUNNING] * count and len(state.nodes) == count
        return sorted(state.nodes) if well else None

    return await until(list_running, f"{count} nodes run", 180)


async def refused(client: ClusterAutoscaler, node: str) -> str:
    """What the autoscaler hears about the deletion of the node, once it is refused."""

    async def read_refusal() -> str | None:
        named = handle(await client._kube.get(paths.node(node)))
        status, text = await client.error("NodeGroupDeleteNodes", id=GROUP, nodes=[named])
        assert status == "FAILED_PRECONDITION", text
        return text if "Paused" in text else None

    return await until(read_refusal, "the deletion is refused", 60)


async def deleted(here: ScaledSite, client: ClusterAutoscaler, nodes: list[str]) -> list[str]:
    """Delete the nodes as the autoscaler does, again after each refusal; return the refusals."""
    refusals: list[str] = []
    left = list(nodes)

    async def are_deleted() -> bool:
        await here.count_permits()
        there = (await client.observe())[GROUP].nodes
        left[:] = [name for name in left if name in there]
        if not left:
            return True
        try:
            await client.delete(GROUP, left)
        except grpc.aio.AioRpcError as error:
            refusals.append(error.details() or "")
        except NotFound:
            pass  # gone between the two reads
        return False

    await until(are_deleted, f"{nodes} are deleted", 180)
    return refusals


async def test_a_set_is_scaled_from_zero_to_three_and_down_by_chosen_nodes(
    here: ScaledSite,
) -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    body = a_set(GROUP, 0, autoscaling={"maxReplicas": 3})
    body["spec"]["template"]["spec"]["nodeTemplate"] = {
        "labels": {"pool": "scaled", "gpu": "a100"},
        "taints": [taint],
    }
    await here.site.make(body)
    await here.site.make(a_set("manual", 0))
    for number in range(3):
        await here.kube.create(PODS, a_pending_pod(f"pending-{number}", "3"))
    try:
        async with here.client() as client:
            await _from_zero(here, client)
        async with here.client() as client:  # provider and client are others now
            await _down(here, client)
    finally:
        for number in range(3):
            with suppress(NotFound):
                await here.kube.delete(f"{PODS}/pending-{number}", grace_seconds=0)


async def _from_zero(here: ScaledSite, client: ClusterAutoscaler) -> None:
    await until(lambda: is_group(client), "the set is a group")
    groups = await client.observe()
    assert list(groups) == [GROUP], "a set without spec.autoscaling is none"
    assert (groups[GROUP].low, groups[GROUP].high, groups[GROUP].target) == (0, 3, 0)
    assert (await client.call("GPULabel")).label == "gpu"
    assert list((await client.call("GetAvailableGPUTypes")).gpuTypes) == ["a100"]
    await client.call("NodeGroupGetOptions", id=GROUP)

    node = await client.template(GROUP)
    assert node.metadata.labels["pool"] == "scaled"
    assert node.metadata.labels["topology.kubernetes.io/zone"] == "zone-a"
    assert [(t.key, t.value, t.effect) for t in node.spec.taints] == [("team", "a", "NoSchedule")]
    assert node.status.capacity["memory"].string == "16Gi"
    _store_node(here.cp, (await client.call("NodeGroupTemplateNodeInfo", id=GROUP)).nodeBytes)

    assert await client.scale_up(GROUP) == 3
    assert (await client.observe())[GROUP].target == 3, "the size shows at once"
    status, text = await client.error("NodeGroupIncreaseSize", id=GROUP, delta=1)
    assert status == "OUT_OF_RANGE" and "maxReplicas is 3" in text
    names = await runs(client, 3)
    ids = {f"{(await here.kube.get(paths.node(name)))['spec']['providerID']}" for name in names}
    assert set((await client.observe())[GROUP].instances) == ids
    status, text = await client.error("NodeGroupDecreaseTargetSize", id=GROUP, delta=-1)
    assert status == "FAILED_PRECONDITION" and "3 Machines exist" in text


async def _down(here: ScaledSite, client: ClusterAutoscaler) -> None:
    oldest, middle, newest = await runs(client, 3)
    stranger = [{"name": "stranger", "providerID": "cloud:///stranger"}]
    status, text = await client.error("NodeGroupDeleteNodes", id=GROUP, nodes=stranger)
    assert status == "INVALID_ARGUMENT" and "stranger" in text

    await here.pause([{"scope": "Cluster", "by": "ann", "why": "freeze"}])
    assert f"Kube Defender refuses node {oldest}" in await refused(client, oldest)
    state = (await client.observe())[GROUP]
    assert (state.target, state.states()) == (3, [RUNNING] * 3), "a refusal changes nothing"
    await here.pause([])

    # The set itself would choose the newest, and one permit is all there is.
    await deleted(here, client, [oldest, middle])
    assert await runs(client, 1) == [newest]
    assert here.most == 1
    state = (await client.observe())[GROUP]
    assert state.target == 1, "repeated calls lower the size once per node"
    await here.site.counts(GROUP, replicas=1, made=3)
    assert len(here.site.cloud.instances) == 1


async def test_a_failed_scale_up_is_reported_and_taken_back(here: ScaledSite) -> None:
    await here.site.make(a_set(GROUP, 1, autoscaling={"minReplicas": 1, "maxReplicas": 3}))
    async with here.client() as client:
        [first] = await runs(client, 1)
        status, text = await client.error(
            "NodeGroupDeleteNodes", id=GROUP, nodes=[handle(await here.kube.get(paths.node(first)))]
        )
        assert status == "OUT_OF_RANGE" and "minReplicas is 1" in text
        quota = ErrorCode.RESOURCE_EXHAUSTED
        here.site.cloud.refuses = InstanceError("fake", quota, "the quota of vCPUs is used up")
        await client.call("NodeGroupIncreaseSize", id=GROUP, delta=1)
        error = await until(lambda: _error(client), "the failure is reported", 120)
        assert error.instanceErrorClass == InstanceErrorClass.OUT_OF_RESOURCES
        assert "the quota of vCPUs is used up" in error.errorMessage
        status, _ = await client.error("NodeGroupIncreaseSize", id=GROUP, delta=1)
        assert status == "RESOURCE_EXHAUSTED"
        assert await client.delete_failed(GROUP) == 1
        # The Machine goes once no instance can come of the request any more.
        state = (await client.observe())[GROUP]
        assert (state.target, state.states()) == (1, [RUNNING, GroupInstanceState.DELETING])
        assert await client.delete_failed(GROUP) == 0

        # What was wanted and never made is withdrawn without a deletion.
        here.site.cloud.refuses = None
        await here.set_class(limits={"maxInstances": 1, "createsPerMinute": 1000})
        await here.site.change(GROUP, replicas=3)
        await here.site.says(GROUP, "Scaled", "QuotaExceeded")
        await client.call("NodeGroupDecreaseTargetSize", id=GROUP, delta=-2)
        state = (await client.observe())[GROUP]
        assert (state.target, state.nodes) == (1, [first])
        assert state.states().count(RUNNING) == 1

        await here.set_class(node=None)
        status, text = await until(lambda: _unknown_template(client), "no template", 30)
        assert "spec.node.capacity" in text
        status, _ = await client.error("NodeGroupTargetSize", id="missing")
        assert status == "NOT_FOUND"


async def _error(client: ClusterAutoscaler) -> Any:
    """The error of an instance, None while none has one."""
    statuses = (await client.observe())[GROUP].instances.values()
    errors = [status.errorInfo for status in statuses if status.errorInfo.errorCode]
    return errors[0] if errors else None


async def _unknown_template(client: ClusterAutoscaler) -> tuple[str, str] | None:
    with suppress(AssertionError):
        status, text = await client.error("NodeGroupTemplateNodeInfo", id=GROUP)
        assert status == "UNIMPLEMENTED"
        return status, text
    return None


async def test_calls_at_the_same_moment_count_once_each(here: ScaledSite) -> None:
    await here.site.make(a_set(GROUP, 0, autoscaling={"maxReplicas": 4}))
    async with here.client() as client:
        await until(lambda: is_group(client), "the set is a group")
        increase = partial(client.call, "NodeGroupIncreaseSize", id=GROUP, delta=1)
        await asyncio.gather(*(increase() for _ in range(4)))
        assert (await client.observe())[GROUP].target == 4
        nodes = await runs(client, 4)
        # Kube Defender may refuse the node to the others, once it is granted to the first.
        deletions = (client.delete(GROUP, nodes[:1]) for _ in range(3))
        answers = await asyncio.gather(*deletions, return_exceptions=True)
        assert None in answers, answers
        assert (await client.observe())[GROUP].target == 3
        assert await runs(client, 3) == nodes[1:]


async def test_provider_may_change_the_size_of_groups_and_nothing_else(here: ScaledSite) -> None:
    await here.site.make(a_set(GROUP, 1, autoscaling={"minReplicas": 1, "maxReplicas": 1}))
    await here.site.make(a_set("manual", 0))
    here.cp.kubectl("apply", "-f", CHARTS / "autoscaler" / "rbac.yaml")
    who = str(here.cp.kubeconfig_for(PROVIDER, PROVIDER_GROUPS))
    async with closing(Kube(connect(who))) as kube:

        async def is_denied(name: str, spec: dict[str, Any]) -> bool:
            try:
                await kube.patch(paths.custom("machinesets", name), {"spec": spec})
            except (Invalid, KubeError) as error:
                return "the autoscaler provider changes" in str(error)
            return False

        # Each try names another class: a try before the API server has read the policy is stored,
        # and the same content again would be no change, which the policy allows.
        templates = ({"template": {"spec": {"classRef": f"other-{n}"}}} for n in count())
        await until(lambda: is_denied(GROUP, next(templates)), "the policy holds", 60)
        assert await is_denied(GROUP, {"replicas": 2})
        assert await is_denied(GROUP, {"replicas": 0})
        assert await is_denied(GROUP, {"autoscaling": {"maxReplicas": 9}})
        assert await is_denied("manual", {"replicas": 1})
        assert not await is_denied(GROUP, {"scaleIn": {"machines": ["m"]}})
        with pytest.raises(KubeError):
            await kube.delete(paths.custom("machines", "m"))


async def test_program_serves_clients_with_a_certificate_of_its_authority(
    here: ScaledSite,
) -> None:
    await here.site.make(a_set(GROUP, 1, autoscaling={"maxReplicas": 1}))
    here.cp.kubectl("apply", "-f", CHARTS / "autoscaler" / "rbac.yaml")
    who, port = here.cp.kubeconfig_for(PROVIDER, PROVIDER_GROUPS), free_port()
    files, nobody = here.certificates.files, f"http://127.0.0.1:{free_port()}"
    flags = (
        f"--kubeconfig={who}",
        "--health-port=0",
        "--audit-file=",
        f"--defender-url={nobody}",
        f"--autoscaler-address={HOST}",
        f"--autoscaler-port={port}",
        f"--autoscaler-cert-file={files.certificate}",
        f"--autoscaler-key-file={files.key}",
        f"--autoscaler-ca-file={files.client_authorities}",
    )
    with started("run", "autoscaler-provider", *flags):
        async with autoscaling(port, here.certificates, here.kube) as client:

            async def serves() -> bool:
                with suppress(grpc.aio.AioRpcError):
                    return await is_group(client)
                return False

            await until(serves, "the program serves", 120)
            [name] = await runs(client, 1)
            node = handle(await here.kube.get(paths.node(name)))
            status, text = await client.error("NodeGroupDeleteNodes", id=GROUP, nodes=[node])
            assert status == "UNAVAILABLE" and "Kube Defender cannot be reached" in text
            assert (await client.observe())[GROUP].target == 1
        async with grpc.aio.insecure_channel(f"{HOST}:{port}") as channel:
            status, _ = await ClusterAutoscaler(channel, here.kube).error("Refresh")
            assert status == "UNAVAILABLE"
        renewed = ProviderCertificates.issue(here.certificates.authority.parent)
        async with autoscaling(port, renewed, here.kube) as client:
            await client.call("Refresh")


def _store_node(cp: ControlPlane, node: bytes) -> None:
    """Let the API server read the bytes, as its own encoding of a Node."""
    kind = b"\x0a\x02v1\x12\x04Node"
    raw = bytes([0x0A, len(kind)]) + kind + b"\x12" + _varint(len(node)) + node
    headers = {
        "Content-Type": "application/vnd.kubernetes.protobuf",
        "Accept": "application/json",
    }
    host = cp.server.removeprefix("https://")
    connection = http.client.HTTPSConnection(host, context=cp._tls, timeout=60)
    try:
        path = "/api/v1/nodes?dryRun=All"
        connection.request("POST", path, b"k8s\x00" + raw, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 201, text
    finally:
        connection.close()
    for wanted in ('"pool":"scaled"', '"cpu":"4"', '"cpu":"3"', '"key":"team"'):
        assert wanted in text, text


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)
