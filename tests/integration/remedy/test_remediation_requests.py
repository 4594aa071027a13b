"""External remediation of Cluster API on a real API server: asked, repaired by a rule, over."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from support.control_plane import ControlPlane
from support.foreign_kinds import a_kind
from support.remedy_cluster import Cluster, connected, established, install_crds, operating
from support.remedy_engine import two_engines

from kubenode.api.v1alpha1 import (
    API_VERSION,
    JobPhase,
    KubeNodeRemediation,
    KubeNodeRemediationTemplate,
    Reason,
)
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.errors import NotFound

pytestmark = pytest.mark.integration

MACHINE = a_kind("cluster.x-k8s.io", "v1beta2", "Machine", "machines", "Namespaced")
MACHINES = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines"
NODE, NAME = "asked-1", "asked-1-machine"
EVENTS = paths.custom("hostevents")


def of(kind: type[KubeNodeRemediation] | type[KubeNodeRemediationTemplate]) -> str:
    base = f"/apis/{paths.GROUP}/{paths.VERSION}"
    return paths.resource(base, kind.resource.plural, namespace="default")


REQUESTS, TEMPLATES = of(KubeNodeRemediation), of(KubeNodeRemediationTemplate)
TEMPLATE: dict[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": "KubeNodeRemediationTemplate",
    "metadata": {"name": "by-kubenode"},
    "spec": {
        "template": {"metadata": {"labels": {"team": "base"}}, "spec": {"severity": "Critical"}}
    },
}
RULE: dict[str, Any] = {
    "mode": "Enforce",
    "faultClass": "machine_unhealthy",
    "nodes": {"selector": {"matchLabels": {"asked": "yes"}}},
    "when": {"hostEvent": {"source": "ClusterAPI", "class": "Unhealthy", "severity": "Critical"}},
    "groupWait": "0s",
    "startupGrace": "0s",
    "ladder": [
        {
            "name": "restart",
            "steps": [{"agent": {"action": "RestartUnit", "unit": "kubelet.service"}}],
            "verify": {"for": "1s", "timeout": "60s"},
        }
    ],
}


@pytest.fixture(scope="module")
def with_machines(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    install_crds(control_plane)
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(MACHINE))
    name = f"crd/{MACHINE['metadata']['name']}"
    established(control_plane, [name])
    yield control_plane
    control_plane.kubectl("delete", name)


@pytest.fixture
async def cluster(with_machines: ControlPlane) -> AsyncIterator[Cluster]:
    async with connected(with_machines) as found:
        await found.clean()  # the API server is shared
        yield found
        for path in (MACHINES, REQUESTS, TEMPLATES, EVENTS):
            await found.kube.call("DELETE", path)


async def a_machine(cluster: Cluster) -> dict[str, Any]:
    """As Cluster API has it of a node that has joined."""
    provider = {"providerID": f"local:///{NODE}"}
    await cluster.node(NODE, labels={"asked": "yes"})
    await cluster.kube.patch(paths.node(NODE), {"spec": provider})
    status = {"nodeRef": {"name": NODE}}
    kind = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine"}
    body = {**kind, "metadata": {"name": NAME}, "spec": provider, "status": status}
    made: dict[str, Any] = await cluster.kube.create(MACHINES, body)
    return made


async def ask(cluster: Cluster, machine: dict[str, Any]) -> None:
    """As a MachineHealthCheck does: of the template, called as the Machine and owned by it."""
    template = await cluster.kube.get(f"{TEMPLATES}/by-kubenode")
    copied = template["spec"]["template"]
    owner = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "name": machine["metadata"]["name"],
        "uid": machine["metadata"]["uid"],
    }
    annotations = {"cluster.x-k8s.io/cloned-from-name": "by-kubenode"}
    meta = {
        **copied["metadata"],
        "name": NAME,
        "annotations": annotations,
        "ownerReferences": [owner],
    }
    kind = {"apiVersion": API_VERSION, "kind": "KubeNodeRemediation"}
    await cluster.kube.create(REQUESTS, {**kind, "metadata": meta, "spec": copied["spec"]})


async def request(cluster: Cluster) -> dict[str, Any]:
    found = await cluster.kube.get(f"{REQUESTS}/{NAME}")
    status: dict[str, Any] = found.get("status", {})
    return status


async def test_a_request_becomes_a_job_under_kube_defender_and_its_end_is_the_proof(
    cluster: Cluster,
) -> None:
    machine = await a_machine(cluster)
    await cluster.kube.create(TEMPLATES, TEMPLATE)
    async with operating(cluster.operator(two_engines())):
        await ask(cluster, machine)
        await said(cluster, "Waiting", "NodeRemedier")
        assert await cluster.jobs() == [] and not cluster.permits.asked, "nobody acts beside rules"

        await cluster.rule("asked-by-cluster-api", **RULE)
        job = await cluster.wait(lambda job: bool(job.status.steps))
        assert cluster.permits.asked[0].node == NODE
        (event,) = (await cluster.kube.get(EVENTS))["items"]
        assert job.spec.host_events == [event["metadata"]["name"]]
        status = await said(cluster, "Repairing", "")
        assert (status["job"], status["node"]) == (job.metadata.name, NODE)

        await cluster.answer(job)
        await cluster.wait(lambda job: job.status.phase is JobPhase.VERIFYING)
        await cluster.kube.delete(f"{REQUESTS}/{NAME}")  # the Machine is healthy again
        await cluster.wait(lambda job: job.status.phase is JobPhase.SUCCEEDED)
        (event,) = (await cluster.kube.get(EVENTS))["items"]
        assert event["status"]["phase"] == "Completed"


async def test_a_request_that_goes_before_the_permit_ends_with_nothing_done(
    cluster: Cluster,
) -> None:
    machine = await a_machine(cluster)
    await cluster.kube.create(TEMPLATES, TEMPLATE)
    cluster.permits.no = Reason.CONCURRENCY_LIMIT
    async with operating(cluster.operator(two_engines())):
        await cluster.rule("asked-by-cluster-api", **RULE)
        await ask(cluster, machine)
        await cluster.wait(lambda job: job.status.phase is JobPhase.AWAITING_PERMIT)
        await cluster.kube.delete(f"{REQUESTS}/{NAME}")
        closed = await cluster.wait(lambda job: job.status.phase.closed)
        assert not closed.status.steps or not any(s.started_at for s in closed.status.steps)
        with pytest.raises(NotFound):
            await cluster.kube.get(f"{REQUESTS}/{NAME}")


async def said(cluster: Cluster, phase: str, words: str) -> dict[str, Any]:
    """Its status, once it is in `phase` and its message has `words`."""
    clock = SystemClock()
    end = clock.monotonic() + 60
    while True:
        seen = await request(cluster)
        if seen.get("phase") == phase and words in seen.get("message", ""):
            return seen
        assert clock.monotonic() < end, f"not within 60 s {phase}, {words}: {seen}"
        await clock.sleep(0.05)
