"""Our programs beside Karpenter, which makes, replaces and deletes the Nodes of its NodePools."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from support.components import CONTROL_PLANE, KARPENTER, require
from support.helm import Helm
from support.karpenter import CLAIMS, CLASS, POOL, POOLS, KarpenterController, a_pool, a_workload
from support.kwok_machines import FAULT, boot, write_provider
from support.neighbour_jobs import (
    REPAIR,
    REPLACE,
    create_rule,
    succeeded_job,
    until,
    wait_for_job,
)
from support.neighbour_site import NeighbourSite, started_site
from support.remedy_cluster import Cluster, connected

from kubenode.api.v1alpha1 import JobPhase, Reason, RemedyOperationJob
from kubenode.runtime.kube import paths

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
DISRUPTED = "karpenter.sh/disrupted"
MARK = "karpenter.sh/do-not-disrupt"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture(scope="module")
def site(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NeighbourSite]:
    require(CONTROL_PLANE)
    require(KARPENTER)
    folder, rack = tmp_path_factory.mktemp("programs"), tmp_path_factory.mktemp("rack")
    with (
        started_site(helm, folder, write_provider(rack)) as found,
        KarpenterController(found.plane, folder),
    ):
        found.apply(CLASS)
        yield found


@asynccontextmanager
async def pool(
    site: NeighbourSite, name: str, expire_after: str = "Never"
) -> AsyncIterator[tuple[Cluster, str]]:
    """A NodePool with one Node, on which a pod runs, until the end of the block."""
    async with connected(site.plane) as cluster:
        site.apply(a_pool(name, expire_after), a_workload(name))
        (node,) = await until(partial(working_nodes, cluster, name), lambda nodes: len(nodes) == 1)
        await boot(cluster.kube, node, 0)
        yield cluster, node
        await cluster.kube.delete(f"{DEPLOYMENTS}/{name}")
        await cluster.kube.delete(f"{POOLS}/{name}")
        await until(partial(claims_of, cluster, name), lambda claims: claims == [])


async def claims_of(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    found = await cluster.kube.get(CLAIMS, query={"labelSelector": f"{POOL}={name}"})
    return list(found["items"])


async def working_nodes(cluster: Cluster, name: str) -> list[str]:
    """Nodes on which the pod of the pool runs."""
    found = await cluster.kube.get(paths.pods("default"), query={"labelSelector": f"app={name}"})
    return [
        pod["spec"]["nodeName"] for pod in found["items"] if pod["status"]["phase"] == "Running"
    ]


async def blocked(cluster: Cluster, node: str) -> list[str]:
    """What Karpenter's Events say of the mark on a node."""
    query = {"fieldSelector": f"reason=DisruptionBlocked,involvedObject.name={node}"}
    found = await cluster.kube.get(EVENTS, query=query)
    return [event["message"] for event in found["items"] if MARK in event["message"]]


def waits_for_boot(job: RemedyOperationJob) -> bool:
    return any(step.name == "powerCycle" and step.started_at for step in job.status.steps)


def waits_for_the_other_owner(job: RemedyOperationJob) -> bool:
    return job.status.hold is not None and job.status.hold.reason == Reason.FOREIGN_OWNER


def a_budget(app: str) -> dict[str, Any]:
    """A PodDisruptionBudget that lets no pod of `app` go."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}},
    }


async def taints_of(cluster: Cluster, node: str) -> list[str]:
    found = await cluster.kube.get(paths.node(node))
    return [taint["key"] for taint in found["spec"].get("taints", ())]


def is_drifted(claims: list[dict[str, Any]]) -> bool:
    return any(
        condition["type"] == "Drifted" and condition["status"] == "True"
        for claim in claims
        for condition in claim["status"]["conditions"]
    )


async def test_drifted_node_stays_while_its_job_is_open_and_is_replaced_afterwards(
    site: NeighbourSite,
) -> None:
    async with pool(site, "drifted") as (cluster, node):
        await create_rule(cluster, "drifted", POOL, REPAIR)
        await cluster.say(node, FAULT, "True")
        await wait_for_job(cluster, node, waits_for_boot)
        changed = {"spec": {"template": {"metadata": {"labels": {"example.com/changed": "yes"}}}}}
        await cluster.kube.patch(f"{POOLS}/drifted", changed)
        await until(partial(claims_of, cluster, "drifted"), is_drifted)
        await until(partial(blocked, cluster, node), bool)
        (claim,) = await claims_of(cluster, "drifted")
        assert claim["status"]["nodeName"] == node
        assert "deletionTimestamp" not in claim["metadata"]

        await boot(cluster.kube, node, 1)
        await succeeded_job(cluster, node)
        others = await until(
            partial(working_nodes, cluster, "drifted"), lambda nodes: nodes and node not in nodes
        )
        assert len(others) == 1


async def test_job_replaces_a_node_by_its_claim_and_karpenter_makes_the_next(
    site: NeighbourSite,
) -> None:
    async with pool(site, "claimed") as (cluster, node):
        before = {claim["metadata"]["uid"] for claim in await claims_of(cluster, "claimed")}
        await create_rule(cluster, "claimed", POOL, REPLACE)
        await cluster.say(node, FAULT, "True")
        job = await succeeded_job(cluster, node)
        (claim,) = await claims_of(cluster, "claimed")
        assert claim["metadata"]["uid"] not in before
        new = claim["status"]["nodeName"]
        assert job.status.steps[-1].message == f"replaced by {new} through Karpenter"
        await until(partial(working_nodes, cluster, "claimed"), lambda nodes: nodes == [new])


async def test_node_that_a_job_has_emptied_is_removed_only_after_the_job(
    site: NeighbourSite,
) -> None:
    async with pool(site, "emptied") as (cluster, node):
        steps: list[dict[str, Any]] = [{"cordon": {}}, {"migrate": {}}, {"powerCycle": {}}]
        await create_rule(cluster, "emptied", POOL, REPAIR | {"steps": steps})
        await cluster.say(node, FAULT, "True")
        await wait_for_job(cluster, node, waits_for_boot)
        await until(partial(blocked, cluster, node), bool)
        assert node in {
            claim["status"]["nodeName"] for claim in await claims_of(cluster, "emptied")
        }

        await boot(cluster.kube, node, 1)
        await succeeded_job(cluster, node)
        (claim,) = await until(
            partial(claims_of, cluster, "emptied"), lambda claims: len(claims) == 1
        )
        assert await working_nodes(cluster, "emptied") == [claim["status"]["nodeName"]] != [node]


async def test_job_gets_no_permit_for_a_node_that_karpenter_drains(site: NeighbourSite) -> None:
    async with pool(site, "drained") as (cluster, node):
        site.apply(a_budget("drained"))
        (claim,) = await claims_of(cluster, "drained")
        await cluster.kube.delete(f"{CLAIMS}/{claim['metadata']['name']}")
        await until(partial(taints_of, cluster, node), lambda taints: DISRUPTED in taints)
        await create_rule(cluster, "drained", POOL, REPAIR)
        await cluster.say(node, FAULT, "True")
        await wait_for_job(cluster, node, waits_for_the_other_owner)
        site.plane.kubectl("delete", "poddisruptionbudget", "drained")
        job = await wait_for_job(cluster, node, lambda job: job.status.phase.closed)
        assert (job.status.phase, job.status.steps) == (JobPhase.CANCELLED, [])


async def test_node_that_expires_cancels_its_open_job_and_gives_back_the_permit(
    site: NeighbourSite,
) -> None:
    async with pool(site, "expiring", "30s") as (cluster, node):
        await create_rule(cluster, "expiring", POOL, REPAIR)
        await cluster.say(node, FAULT, "True")
        opened = await wait_for_job(cluster, node, waits_for_boot)
        assert opened.status.permit is not None
        job = await wait_for_job(cluster, node, lambda job: job.status.phase.closed)
        assert job.status.phase is JobPhase.CANCELLED, job.status.message
        assert "the node is gone" in job.status.message
        permit = f"{paths.custom('permits')}/{opened.status.permit.name}"
        released = await until(
            partial(cluster.kube.get, permit), lambda p: p["status"]["state"] != "Granted"
        )
        assert released["status"]["state"] == "Released"
