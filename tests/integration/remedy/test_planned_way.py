"""A planned event's whole way: the cloud announces it, the node is emptied, the cloud is told, it
comes, and the node is given back. The API server and the SDK are real, the cloud is a stub.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from prometheus_client import CollectorRegistry
from support.fake_gcp import PROJECT, ZONE, FakeGcp
from support.remedy_cluster import Cluster, now, operating, stamp
from support.remedy_engine import two_engines
from support.running import running

from kubenode.api.v1alpha1 import Operation, RemedyOperationJob
from kubenode.providers.events import Sources
from kubenode.providers.gcp.events import Maintenance
from kubenode.providers.gcp.power import Gcp
from kubenode.providers.registry import Providers
from kubenode.providers.settings import GcpSettings
from kubenode.providers.threaded_events import ThreadedList
from kubenode.providers.threads import Threaded
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.process import serve
from remedy.hostdoctor.parsers import PARSERS
from remedy.hostdoctor.pollers.build import event_pollers
from remedy.operator import RemedyOperator

pytestmark = pytest.mark.integration
EVENTS = paths.custom("hostevents")
WAIT = {"until": ["Completed", "Cancelled", "NewBootID"], "onCancel": "Release", "timeout": "5m"}


def a_rule(class_: str) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [
        {"cordon": {}},
        {"migrate": {"timeout": "60s"}},
        {"approveEvent": {"timeout": "60s"}},
        {"waitForEvent": WAIT},
    ]
    return {
        "mode": "Enforce",
        "faultClass": "host_maintenance_generic",
        "nodes": {"all": True},
        "when": {"hostEvent": {"class": class_, "phase": "Scheduled", "startsWithin": "2h"}},
        "groupWait": "0s",
        "startupGrace": "0s",
        "ladder": [{"name": "evacuate", "steps": steps, "verify": {"for": "1s", "timeout": "30s"}}],
    }


@asynccontextmanager
async def polling(
    cloud: FakeGcp, operator: RemedyOperator, settings: GcpSettings
) -> AsyncIterator[None]:
    nobody = AnonymousCredentials()  # type: ignore[no-untyped-call]
    source = ThreadedList(Maintenance(settings, nobody))
    source.every = timedelta(milliseconds=200)
    parts = event_pollers(Sources([source]), operator.desk, SystemClock(), CollectorRegistry())
    try:
        async with running(serve(parts)):
            yield
    finally:
        await source.close()


async def forget_events(cluster: Cluster) -> None:
    await cluster.kube.call("DELETE", EVENTS)


async def an_event(cluster: Cluster, phase: str) -> dict[str, Any]:
    """The only one there is, once it is in that phase."""
    async with asyncio.timeout(60):
        while True:
            (event,) = (await cluster.kube.get(EVENTS))["items"]
            if event["status"]["phase"] == phase:
                return dict(event)
            await asyncio.sleep(0.05)


async def pods_of(cluster: Cluster, node: str) -> list[str]:
    query = {"fieldSelector": f"spec.nodeName={node}"}
    found = await cluster.kube.get(paths.pods(), query=query)
    return [pod["metadata"]["name"] for pod in found["items"]]


async def test_maintenance_of_google_cloud_from_its_notice_to_its_end(cluster: Cluster) -> None:
    cloud, node = FakeGcp(), "gke-shop-pool1-0f3c-a1b2"
    cloud.add(node)
    given = GcpSettings(type="gcp", project=PROJECT, endpoint=cloud.server.url, events={})
    clock, nobody = SystemClock(), AnonymousCredentials()  # type: ignore[no-untyped-call]
    provider = Threaded(Gcp(given, clock, nobody), clock)
    await cluster.node(node)
    await cluster.kube.patch(
        paths.node(node), {"spec": {"providerID": f"gce://{PROJECT}/{ZONE}/{node}"}}
    )
    await cluster.rule("maintenance", **a_rule("Maintenance"))
    await cluster.pod(node, "default", "cart-planned", "cart-planned")
    operator = cluster.operator(two_engines(), providers=Providers([provider]))
    try:
        async with operating(operator), polling(cloud, operator, given):
            due = now() + timedelta(minutes=30)
            cloud.maintenance[node] = {
                "type": "SCHEDULED",
                "canReschedule": True,
                "maintenanceStatus": "PENDING",
                "windowStartTime": stamp(due),
            }
            waits = await cluster.wait(lambda j: at(j, "waitForEvent"))
            assert await pods_of(cluster, node) == []
            assert cloud.maintenance[node]["maintenanceStatus"] == "ONGOING"
            assert waits.spec.deadline is not None
            assert abs(waits.spec.deadline - due) < timedelta(seconds=2)
            assert {ask.operation for ask in cluster.permits.asked} == {Operation.EVACUATE}
            event = await an_event(cluster, "Active")
            assert event["spec"]["node"]["name"] == node

            del cloud.maintenance[node]  # what the list lacks is over
            done = await cluster.wait(lambda j: j.status.phase.closed and not j.metadata.finalizers)
            assert done.status.phase == "Succeeded", done.status.message
            found = await cluster.kube.get(paths.node(node))
            assert not found["spec"].get("unschedulable")
            await an_event(cluster, "Completed")
        asked = [r.path.rpartition("/")[2] for r in cloud.server.asked if r.method == "POST"]
        assert asked == ["performMaintenance"], "the cloud was told once"
        assert cluster.permits.held == {}
    finally:
        await provider.close()
        cloud.server.close()
        await forget_events(cluster)


AZURE = (
    "azure:///subscriptions/6f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f9/resourceGroups/g"
    "/providers/Microsoft.Compute/virtualMachineScaleSets/pool/virtualMachines/"
)


def scheduled(*machines: str, status: str = "Scheduled") -> dict[str, Any]:
    event = {
        "EventId": "602d9444-d2cd-49c7-8624-8643e7171297",
        "EventType": "Redeploy",
        "ResourceType": "VirtualMachine",
        "Resources": list(machines),
        "EventStatus": status,
        "NotBefore": "" if status == "Started" else stamp(now() + timedelta(minutes=10)),
        "Description": "Virtual machine has encountered a failure.",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }
    return {"DocumentIncarnation": 2, "Events": [event]}


async def test_an_event_of_two_machines_of_azure_starts_when_both_are_empty(
    cluster: Cluster,
) -> None:
    for number in (1, 2):
        await cluster.node(f"pool{number}")
        path = paths.node(f"pool{number}")
        await cluster.kube.patch(path, {"spec": {"providerID": f"{AZURE}{number}"}})
    budget = {
        "metadata": {"name": "slow"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "slow"}}},
    }
    await cluster.kube.create(paths.pod_disruption_budgets("default"), budget)
    await cluster.pod("pool2", "default", "slow-1", "slow")
    await cluster.rule("redeploy", **a_rule("Redeploy"))
    operator = cluster.operator(two_engines())

    async def tell(document: dict[str, Any]) -> None:
        """As the agents of both, each of its own machine; they are one list here."""
        await operator.desk.take(PARSERS["azure_imds"](document, now()))

    try:
        async with operating(operator):
            await tell(scheduled("pool_1", "pool_2"))
            why = "the event is of node pool2 too, which is not empty yet"
            held = await cluster.wait(
                lambda j: j.status.hold is not None and j.status.hold.message == why
            )
            assert held.spec.node_name == "pool1"
            await cluster.kube.delete(f"{paths.pod_disruption_budgets('default')}/slow")
            asked = await cluster.wait(lambda j: j.spec.node_name == "pool2" and by_agent(j))
            record = next(s for s in asked.status.steps if s.name == "approveEvent")
            assert record.output["event"] == "602d9444-d2cd-49c7-8624-8643e7171297"
            await cluster.answer(asked)
            await tell(scheduled("pool_1", "pool_2", status="Started"))
            for node in ("pool1", "pool2"):
                await goes_on(cluster, node)
            await tell({"DocumentIncarnation": 3, "Events": []})
            for node in ("pool1", "pool2"):
                done = await ended(cluster, node)
                assert done.status.phase == "Succeeded", done.status.message
    finally:
        await forget_events(cluster)


async def ended(cluster: Cluster, node: str) -> RemedyOperationJob:
    return await cluster.wait(lambda j: j.spec.node_name == node and j.status.phase.closed)


async def goes_on(cluster: Cluster, node: str) -> None:
    """Whether it was held when the event began, or had just asked its agent too."""

    def waits(job: RemedyOperationJob) -> bool:
        return job.spec.node_name == node and at(job, "waitForEvent")

    def either(job: RemedyOperationJob) -> bool:
        return waits(job) or (job.spec.node_name == node and by_agent(job))

    found = await cluster.wait(either)
    if not waits(found):
        await cluster.answer(found)
    await cluster.wait(waits)


def at(job: RemedyOperationJob, step: str) -> bool:
    return any(s.name == step and s.state == "Running" for s in job.status.steps)


def by_agent(job: RemedyOperationJob) -> bool:
    return any(
        s.name == "approveEvent" and s.by == "Agent" and s.state == "Running"
        for s in job.status.steps
    )
