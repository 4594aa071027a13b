"""Replace through Cluster API and Karpenter: their kinds on a real API server, minimal schemas."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from support.clock import FakeClock
from support.control_plane import ControlPlane
from support.disruption_guard import GuardLevers
from support.foreign_kinds import a_kind
from support.remedy_builders import a_job, by_kubelet
from support.remedy_cluster import Cluster, connected, established, install_crds, now, operating
from support.remedy_engine import two_engines
from support.running import running, until

from kubenode.api.v1alpha1 import JobPhase
from kubenode.providers.registry import Providers
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, structs
from remedy.power.clusterapi import ClusterApi
from remedy.power.karpenter import Karpenter
from remedy.power.methods import ReplacementRequest, ReplacementTarget
from remedy.power.observation import ReplacementObservation, RequestOutcome
from remedy.power.replacer import Replacing

pytestmark = pytest.mark.integration
MACHINES = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"


KINDS = (
    a_kind("cluster.x-k8s.io", "v1beta2", "Machine", "machines", "Namespaced"),
    a_kind("karpenter.sh", "v1", "NodeClaim", "nodeclaims", "Cluster"),
)


@pytest.fixture(scope="module")
def with_kinds(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    install_crds(control_plane)
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": KINDS})
    control_plane.kubectl("apply", "-f", "-", stdin=listed)
    names = [f"crd/{kind['metadata']['name']}" for kind in KINDS]
    established(control_plane, names)
    yield control_plane
    control_plane.kubectl("delete", *names)


@pytest.fixture
async def cluster(with_kinds: ControlPlane) -> AsyncIterator[Cluster]:
    async with connected(with_kinds) as found:
        yield found
        for path in (MACHINES, CLAIMS):
            for obj in (await found.kube.get(path))["items"]:
                await found.kube.delete(f"{path}/{obj['metadata']['name']}")


@pytest.fixture
async def nodes(cluster: Cluster) -> AsyncIterator[Informer[Node]]:
    informer: Informer[Node] = Informer(
        cluster.kube, paths.nodes(), structs(Node), clock=SystemClock()
    )
    async with running(informer.run()):
        await until(informer.fresh, 60, "nodes are listed")
        yield informer


async def a_machine(cluster: Cluster, name: str, node: str, **metadata: Any) -> dict[str, Any]:
    owner = {"apiVersion": "cluster.x-k8s.io/v1beta2", "uid": "u", "controller": True}
    labels = {"cluster.x-k8s.io/deployment-name": "md-a"}
    body = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {
            "name": name,
            "labels": labels,
            "ownerReferences": [{**owner, "kind": "MachineSet", "name": "md-a-1"}],
            **metadata,
        },
        "spec": {},
        "status": {"nodeRef": {"name": node}},
    }
    return await cluster.kube.create(MACHINES, body)


async def a_claim(cluster: Cluster, name: str, node: str, pool: str = "pool-a") -> dict[str, Any]:
    body = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": pool}},
        "status": {"nodeName": node},
    }
    return await cluster.kube.create(CLAIMS, body)


def owned_by(claim: dict[str, Any]) -> list[dict[str, Any]]:
    meta = claim["metadata"]
    return [
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "name": meta["name"],
            "uid": meta["uid"],
        }
    ]


def of_machine(name: str) -> dict[str, str]:
    return {"cluster.x-k8s.io/machine": name, "cluster.x-k8s.io/cluster-namespace": "default"}


async def seen(cluster: Cluster, nodes: Informer[Node], name: str) -> Node:
    await until(lambda: nodes.get(name) is not None, 60, "the node is in the cache")
    node = nodes.get(name)
    assert node is not None
    return node


def asked(node: Node, found: ReplacementTarget) -> ReplacementRequest:
    meta = node.metadata
    return ReplacementRequest(
        meta.name, meta.uid, found.target, found.group, now(), "job-uid.r0s0a1"
    )


# -- Cluster API -----------------------------------------------------------------------------------


async def test_cluster_api_deletes_a_machine_that_a_set_made(
    cluster: Cluster, nodes: Informer[Node]
) -> None:
    way = ClusterApi(cluster.kube, nodes, recent=0.0)
    await cluster.node("c1", annotations=of_machine("m1"))
    await a_machine(cluster, "m1", "c1", finalizers=["machine.cluster.x-k8s.io"])
    node = await seen(cluster, nodes, "c1")
    found = await way.find(node)
    assert isinstance(found, ReplacementTarget) and found.group == "MachineDeployment md-a"
    request = asked(node, found)
    assert (await way.ask(request)).outcome is RequestOutcome.TAKEN
    assert (await way.ask(request)).outcome is RequestOutcome.TAKEN, "asked again it does no harm"
    far = await way.far(request)
    assert not far.gone and "not gone yet" in far.why

    await cluster.kube.patch(f"{MACHINES}/m1", {"metadata": {"finalizers": None}})
    far = await way.far(request)
    assert far.gone and not far.new
    await a_machine(cluster, "m2", "c2")
    await cluster.node("c2", annotations=of_machine("m2"))
    await seen(cluster, nodes, "c2")
    await until(lambda: way.ready("c2"), 60, "the new node is Ready in the cache")
    assert (await way.far(request)).new == "c2"


async def test_cluster_api_marks_a_machine_of_another_controller_for_remediation(
    cluster: Cluster, nodes: Informer[Node]
) -> None:
    way = ClusterApi(cluster.kube, nodes, recent=0.0)
    await cluster.node("c3", annotations=of_machine("m3"))
    owner = {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane"}
    owner |= {"name": "cp", "uid": "u"}
    references = [{**owner, "controller": True}]
    await a_machine(cluster, "m3", "c3", labels={}, ownerReferences=references)
    node = await seen(cluster, nodes, "c3")
    found = await way.find(node)
    assert isinstance(found, ReplacementTarget) and found.group == "KubeadmControlPlane cp"
    assert (await way.ask(asked(node, found))).outcome is RequestOutcome.TAKEN
    machine = await cluster.kube.get(f"{MACHINES}/m3")
    assert "cluster.x-k8s.io/remediate-machine" in machine["metadata"]["annotations"]
    assert "deletionTimestamp" not in machine["metadata"]


@pytest.mark.parametrize(
    ("annotations", "changes", "why"),
    [
        ({}, {}, "no annotations"),
        (of_machine("another"), {}, "is not in this cluster"),
        (of_machine("m4"), {"node": "somebody-else"}, "another node's"),
        (of_machine("m4"), {"ownerReferences": []}, "no controller"),
    ],
)
async def test_cluster_api_does_not_apply(
    cluster: Cluster,
    nodes: Informer[Node],
    annotations: dict[str, str],
    changes: dict[str, Any],
    why: str,
) -> None:
    changes = dict(changes)
    await cluster.node("c4", annotations=annotations)
    await a_machine(cluster, "m4", changes.pop("node", "c4"), **changes)
    said = await ClusterApi(cluster.kube, nodes).find(await seen(cluster, nodes, "c4"))
    assert isinstance(said, str) and why in said


# -- Karpenter -------------------------------------------------------------------------------------


async def test_karpenter_is_asked_by_deleting_the_claim_of_the_node(
    cluster: Cluster, nodes: Informer[Node]
) -> None:
    way = Karpenter(cluster.kube, nodes, recent=0.0)
    claim = await a_claim(cluster, "k1", "w1")
    await cluster.node("w1", ownerReferences=owned_by(claim))
    node = await seen(cluster, nodes, "w1")
    found = await way.find(node)
    assert isinstance(found, ReplacementTarget) and found.group == "NodePool pool-a"
    request = asked(node, found)
    assert not (await way.far(request)).gone
    assert (await way.ask(request)).outcome is RequestOutcome.TAKEN
    with pytest.raises(NotFound):
        await cluster.kube.get(f"{CLAIMS}/k1")
    far = await way.far(request)
    assert far.gone and far.enough, "nobody wants another node so far"
    await a_claim(cluster, "of-another-pool", "w9", pool="pool-b")
    assert (await way.far(request)).enough
    await a_claim(cluster, "k2", "w2")
    assert not (await way.far(request)).enough
    await cluster.node("w2")
    await seen(cluster, nodes, "w2")
    await until(lambda: way.ready("w2"), 60, "the new node is Ready in the cache")
    assert (await way.far(request)).new == "w2"


async def test_karpenter_takes_no_nodes_word_for_a_claim_of_another(
    cluster: Cluster, nodes: Informer[Node]
) -> None:
    claim = await a_claim(cluster, "k3", "its-own-node")
    await cluster.node("w3", ownerReferences=owned_by(claim))
    said = await Karpenter(cluster.kube, nodes).find(await seen(cluster, nodes, "w3"))
    assert isinstance(said, str) and "another node's" in said


# -- the first way that applies, and a whole job ---------------------------------------------------


async def test_why_nobody_can_replace_a_machine_is_said_for_every_way(
    cluster: Cluster, nodes: Informer[Node]
) -> None:
    made = await cluster.node("w4")
    await seen(cluster, nodes, "w4")
    rung = {"name": "r", "steps": [{"replace": {}}]}
    job = a_job(rung, nodeName="w4", nodeUID=made["metadata"]["uid"])
    levers = GuardLevers(FakeClock())
    ways = Replacing(
        cluster.kube,
        nodes,
        Providers(),
        by_kubelet,
        levers.guard,
        levers,  # type: ignore[arg-type]
    )
    far: ReplacementObservation = await ways.observe(job, None)
    assert far.path == "" and far.outcome is RequestOutcome.REFUSED
    for way in ("Machine:", "ClusterAPI:", "Karpenter:", "InstanceGroup:"):
        assert way in far.why


async def test_a_job_replaces_a_node_through_karpenter(cluster: Cluster) -> None:
    claim = await a_claim(cluster, "k5", "w5")
    await cluster.kube.patch(
        f"{CLAIMS}/k5", {"metadata": {"finalizers": ["karpenter.sh/termination"]}}
    )
    await cluster.node("w5", ownerReferences=owned_by(claim))
    rung = {
        "name": "replace",
        "steps": [{"cordon": {}}, {"replace": {"timeout": "80s"}}],
        "verify": {"for": "1s", "timeout": "20s"},
    }
    rule = {
        "mode": "Enforce",
        "faultClass": "disk",
        "nodes": {"all": True},
        "when": {"condition": {"type": "DiskBroken", "status": "True"}},
        "groupWait": "0s",
        "startupGrace": "0s",
        "ladder": [rung],
    }
    await cluster.rule("broken", **rule)
    async with operating(cluster.operator(two_engines())):
        await cluster.say("w5", "DiskBroken", "True")
        await cluster.wait(lambda j: any(r.output.get("heard") for r in j.status.steps))
        going = await cluster.kube.get(f"{CLAIMS}/k5")
        assert going["metadata"]["deletionTimestamp"]
        await cluster.kube.delete(paths.node("w5"))
        await cluster.kube.patch(f"{CLAIMS}/k5", {"metadata": {"finalizers": None}})
        await a_claim(cluster, "k6", "w6")
        await cluster.node("w6")
        job = await cluster.wait(lambda j: j.status.phase.closed)
    assert job.status.phase is JobPhase.SUCCEEDED, job.status.message
    assert job.status.steps[-1].message == "replaced by w6 through Karpenter"
    assert cluster.permits.held == {}
