"""Our programs beside Cluster API's core manager, which makes, heals and replaces Machines."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest
from support.cluster_api import (
    DEPLOYMENTS,
    HEALTH_CHECKS,
    MACHINES,
    VERSION,
    ClusterApiManager,
    a_cluster,
    a_deployment,
)
from support.components import CLUSTER_API, CONTROL_PLANE, require
from support.helm import Helm
from support.kwok_machines import FAULT, PREFIX, KwokMachines, install_kinds, write_provider
from support.neighbour_jobs import REPAIR, REPLACE, create_rule, succeeded_job, until
from support.neighbour_site import MACHINE, NeighbourSite, started_site
from support.remedy_cluster import Cluster, connected
from support.running import running

from kubenode.api.v1alpha1 import API_VERSION, Machine
from kubenode.api.v1alpha1.machine import MachineOrigin
from kubenode.runtime.kube import paths
from machine.clusterapi.step import ADOPT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
NO_LABELS: Mapping[str, str] = MappingProxyType({})
OUR_MACHINES = paths.custom("machines")
REQUESTS = "/apis/kubenode.io/v1alpha1/namespaces/default/kubenoderemediations"
POOL = "node.cluster.x-k8s.io/pool"
"""Cluster API copies labels of this domain from a Machine to its Node."""
DEPLOYMENT = "cluster.x-k8s.io/deployment-name"
REQUESTED = {"hostEvent": {"source": "ClusterAPI", "class": "Unhealthy", "severity": "Critical"}}


@pytest.fixture(scope="module")
def site(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NeighbourSite]:
    require(CONTROL_PLANE)
    require(CLUSTER_API)
    folder, rack = tmp_path_factory.mktemp("programs"), tmp_path_factory.mktemp("rack")
    with started_site(helm, folder, write_provider(rack)) as found:
        install_kinds(found.plane)
        with ClusterApiManager(found.plane, folder):
            found.apply(*a_cluster(found.plane))
            yield found


@asynccontextmanager
async def pool(
    site: NeighbourSite, name: str, replicas: int, labels: Mapping[str, str] = NO_LABELS
) -> AsyncIterator[Cluster]:
    """A MachineDeployment whose Machines have Nodes, until the end of the block.

    labels: of its Machines
    """
    async with (
        connected(site.plane) as cluster,
        running(KwokMachines(cluster.kube, site.providers.parent).run()),
    ):
        await cluster.kube.call("DELETE", OUR_MACHINES)  # of a story whose operator has stopped
        site.apply(*a_deployment(name, replicas, {POOL: name, **labels}))
        await until(partial(nodes_of, cluster, name), lambda nodes: len(nodes) == replicas)
        yield cluster
        for path in (HEALTH_CHECKS, DEPLOYMENTS):
            await cluster.kube.call("DELETE", path)
        await until(partial(machines_of, cluster, name), lambda machines: machines == [])


def a_health_check(name: str) -> list[dict[str, Any]]:
    """A MachineHealthCheck of a MachineDeployment that requests our repair, and its template."""
    template = {
        "apiVersion": API_VERSION,
        "kind": "KubeNodeRemediationTemplate",
        "metadata": {"name": "by-kubenode", "namespace": "default"},
        "spec": {"template": {"spec": {"severity": "Critical"}}},
    }
    reference = {key: template[key] for key in ("apiVersion", "kind")} | {"name": "by-kubenode"}
    check = {
        "apiVersion": f"cluster.x-k8s.io/{VERSION}",
        "kind": "MachineHealthCheck",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "clusterName": "self",
            "selector": {"matchLabels": {DEPLOYMENT: name}},
            "checks": {
                "unhealthyNodeConditions": [{"type": FAULT, "status": "True", "timeoutSeconds": 1}]
            },
            "remediation": {"templateRef": reference},
        },
    }
    return [template, check]


async def permits_of(cluster: Cluster, node: str) -> list[str]:
    """The states of the permits of a node."""
    found = (await cluster.kube.get(paths.custom("permits")))["items"]
    return [item["status"]["state"] for item in found if item["spec"]["nodeName"] == node]


async def requests(cluster: Cluster) -> list[str]:
    return [item["metadata"]["name"] for item in (await cluster.kube.get(REQUESTS))["items"]]


async def machines_of(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    query = {"labelSelector": f"{DEPLOYMENT}={name}"}
    found = await cluster.kube.get(MACHINES, query=query)
    return list(found["items"])


async def nodes_of(cluster: Cluster, name: str) -> list[str]:
    machines = await machines_of(cluster, name)
    return sorted(
        m["status"]["nodeRef"]["name"] for m in machines if "nodeRef" in m.get("status", {})
    )


async def ours(cluster: Cluster) -> dict[str, Machine]:
    """All our Machines, by name."""
    found = (await cluster.kube.get(OUR_MACHINES))["items"]
    return {m["metadata"]["name"]: Machine.from_server(json.dumps(m).encode()) for m in found}


async def test_machines_of_a_deployment_are_adopted_and_released_with_theirs(
    site: NeighbourSite,
) -> None:
    async with pool(site, "adopted", 3, {ADOPT: "true"}) as cluster:
        nodes = await nodes_of(cluster, "adopted")
        with site.running(MACHINE):
            adopted = await until(
                partial(ours, cluster), lambda machines: sorted(machines) == nodes
            )
        for name, machine in adopted.items():
            assert machine.spec.origin is MachineOrigin.IMPORT
            assert machine.spec.provider_id == f"{PREFIX}{name}"
            assert machine.metadata.labels[DEPLOYMENT] == "adopted"
        await cluster.kube.patch(f"{DEPLOYMENTS}/adopted", {"spec": {"replicas": 1}})
        kept = await until(partial(nodes_of, cluster, "adopted"), lambda n: len(n) == 1)
        with site.running(MACHINE):
            await until(partial(ours, cluster), lambda machines: sorted(machines) == kept)


async def test_health_check_requests_a_repair_and_takes_it_back_when_the_node_is_healthy(
    site: NeighbourSite,
) -> None:
    async with pool(site, "checked", 2) as cluster:
        node, _ = await nodes_of(cluster, "checked")
        before = {m["metadata"]["uid"] for m in await machines_of(cluster, "checked")}
        site.apply(*a_health_check("checked"))
        await create_rule(cluster, "checked", POOL, REPAIR, REQUESTED)
        await cluster.say(node, FAULT, "True")
        job = await succeeded_job(cluster, node)
        assert len(job.spec.host_events) == 1
        assert [s.name for s in job.status.steps] == ["cordon", "powerCycle"]
        await until(partial(requests, cluster), lambda names: names == [])
        assert await permits_of(cluster, node) == ["Released"]
        assert {m["metadata"]["uid"] for m in await machines_of(cluster, "checked")} == before


async def test_job_replaces_a_machine_and_exactly_one_is_deleted(site: NeighbourSite) -> None:
    async with pool(site, "replaced", 2, {ADOPT: "true"}) as cluster:
        node, other = await nodes_of(cluster, "replaced")
        before = {m["metadata"]["name"] for m in await machines_of(cluster, "replaced")}
        with site.running(MACHINE):
            await until(partial(ours, cluster), lambda machines: sorted(machines) == [node, other])
            await create_rule(cluster, "replaced", POOL, REPLACE)
            await cluster.say(node, FAULT, "True")
            job = await succeeded_job(cluster, node)
        after = {m["metadata"]["name"] for m in await machines_of(cluster, "replaced")}
        assert before - after == {node}
        (new,) = after - before
        assert job.status.steps[-1].message == f"replaced by {new} through ClusterAPI"
        assert await nodes_of(cluster, "replaced") == sorted([other, new])
