"""Planned events, receivers and other remediators with a real kube-apiserver and real addresses."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.control_plane import ControlPlane
from support.power_provider import MemoryProvider
from support.receiving import http_receiver
from support.remedy_cluster import (
    Cluster,
    established,
    now,
    operating,
    stamp,
)
from support.remedy_engine import two_engines
from support.running import until

from kubenode.api.v1alpha1 import JobPhase, Operation, Reason, RemedyOperationJob
from kubenode.providers.port import Can, ProviderMachine
from kubenode.providers.registry import Providers
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH
from kubenode.runtime.kube.errors import NotFound
from remedy.notify.teller import NOTIFIED
from remedy.operator import RemedyOperator
from remedy.outside import Outside

pytestmark = pytest.mark.integration
EVENTS = paths.custom("hostevents")
EVENT = "cloud-reboot-1"
GROUP = "self-node-remediation.medik8s.io"
OBJECTS = paths.resource(f"/apis/{GROUP}/v1alpha1", "selfnoderemediations", namespace="default")
VERIFY = {"for": "1s", "timeout": "30s", "settle": "0s"}


@dataclass
class Cloud(MemoryProvider):
    """Begins with what it is told may start."""

    can: Can = field(default_factory=lambda: Can(approve=True))
    approved: list[tuple[str, str]] = field(default_factory=list)
    cluster: Cluster | None = None

    async def approve(self, machine: ProviderMachine, event: str) -> None:
        self.approved.append((machine.provider_id, event))
        assert self.cluster is not None
        await set_phase(self.cluster, "Active")


@pytest.fixture
async def cluster(cluster: Cluster) -> AsyncIterator[Cluster]:
    yield cluster
    await cluster.kube.call("DELETE", EVENTS)


def a_rule(*steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "mode": "Enforce",
        "faultClass": "host_reboot",
        "nodes": {"all": True},
        "when": {"hostEvent": {"class": "Reboot", "startsWithin": "2h"}},
        "groupWait": "0s",
        "startupGrace": "0s",
        "ladder": [{"name": "evacuate", "steps": list(steps), "verify": VERIFY}],
        **changes,
    }


def operator(
    cluster: Cluster, cloud: Cloud | None = None, outside: dict[str, Any] | None = None
) -> RemedyOperator:
    return RemedyOperator(
        cluster.kube,
        cluster.permits,
        two_engines(),
        AlwaysLeader(),
        SystemClock(),
        CollectorRegistry(),
        providers=Providers([cloud] if cloud is not None else []),
        outside=Outside.model_validate(outside or {}),
        permit_reader=cluster.permits,
    )


async def announce(cluster: Cluster, phase: str, begins: datetime) -> None:
    """As Host Doctor."""
    spec = {
        "source": "AlibabaCloud",
        "externalID": "C7061BAC-AFDC-4513-B24B-AA5F13A16123",
        "class": "Reboot",
        "node": {"name": "w1", "providerID": "memory://w1"},
        "notBefore": stamp(begins),
    }
    kind = {"apiVersion": "kubenode.io/v1alpha1", "kind": "HostEvent"}
    await cluster.kube.create(EVENTS, {**kind, "metadata": {"name": EVENT}, "spec": spec})
    await set_phase(cluster, phase)


async def set_phase(cluster: Cluster, phase: str) -> None:
    status = {"phase": phase, "firstSeen": stamp(), "lastSeen": stamp()}
    await cluster.kube.patch(f"{EVENTS}/{EVENT}/status", {"status": status})


async def a_node(cluster: Cluster) -> None:
    await cluster.node("w1")
    await cluster.kube.patch(paths.node("w1"), {"spec": {"providerID": "memory://w1"}})


async def boot(cluster: Cluster) -> None:
    patch = {"status": {"nodeInfo": {"bootID": "boot-2"}}}
    await cluster.kube.patch(paths.node("w1", "status"), patch, STRATEGIC_PATCH)


def at_step(name: str) -> Any:
    def there(job: RemedyOperationJob) -> bool:
        return any(s.name == name and s.state == "Running" for s in job.status.steps)

    return there


def in_phase(*phases: JobPhase) -> Any:
    return lambda job: job.status.phase in phases and not job.metadata.finalizers


CORDON: dict[str, Any] = {"cordon": {}}
DRAIN: dict[str, Any] = {"migrate": {"timeout": "30s"}}
WAIT = {"waitForEvent": {"until": ["Completed", "Cancelled", "NewBootID"], "timeout": "1m"}}


async def test_a_planned_reboot_is_emptied_for_let_go_ahead_waited_for_and_proven(
    cluster: Cluster,
) -> None:
    cloud, begins = Cloud(cluster=cluster), now() + timedelta(hours=1)
    await a_node(cluster)
    await cluster.pod("w1", "default", "cart-1", "cart")
    await cluster.rule("reboot", **a_rule(CORDON, DRAIN, {"approveEvent": {}}, WAIT))
    async with operating(operator(cluster, cloud)):
        await announce(cluster, "AwaitingApproval", begins)
        waits = await cluster.wait(at_step("waitForEvent"))
        assert waits.spec.host_events == [EVENT]
        assert waits.spec.deadline == begins.replace(microsecond=0)
        assert cloud.approved == [("memory://w1", "C7061BAC-AFDC-4513-B24B-AA5F13A16123")]
        first = cluster.permits.asked[0]
        assert first.operation is Operation.EVACUATE and first.deadline == waits.spec.deadline
        node = await cluster.kube.get(paths.node("w1"))
        assert node["spec"]["unschedulable"] is True
        await boot(cluster)
        await set_phase(cluster, "Completed")
        job = await cluster.wait(in_phase(JobPhase.SUCCEEDED))
        messages = {s.name: s.message for s in job.status.steps}
        assert messages["waitForEvent"] in (
            "the host has booted again",
            "the planned event is over (Completed)",
        )
        node = await cluster.kube.get(paths.node("w1"))
        assert not node["spec"].get("unschedulable") and cluster.permits.held == {}


async def test_a_cancelled_event_gives_the_node_back(cluster: Cluster) -> None:
    await a_node(cluster)
    await cluster.rule("reboot", **a_rule(CORDON, DRAIN, WAIT))
    async with operating(operator(cluster)):
        await announce(cluster, "Scheduled", now() + timedelta(hours=1))
        await cluster.wait(at_step("waitForEvent"))
        assert cluster.permits.asked[0].inevitable
        await set_phase(cluster, "Cancelled")
        job = await cluster.wait(in_phase(JobPhase.CANCELLED))
        assert job.status.message == "the planned event was cancelled"
        node = await cluster.kube.get(paths.node("w1"))
        assert not node["spec"].get("unschedulable") and cluster.permits.held == {}


async def test_an_event_that_is_put_off_is_queued_by_its_new_time(cluster: Cluster) -> None:
    cluster.permits.no = Reason.CONCURRENCY_LIMIT
    later = (now() + timedelta(minutes=100)).replace(microsecond=0)
    await a_node(cluster)
    await cluster.rule("reboot", **a_rule(CORDON, DRAIN, WAIT))
    async with operating(operator(cluster)):
        await announce(cluster, "Scheduled", now() + timedelta(hours=1))
        await until(lambda: bool(cluster.permits.asked), 60, "it was asked")
        assert cluster.permits.asked[-1].deadline != later
        patch = {"spec": {"notBefore": stamp(later)}}
        await cluster.kube.patch(f"{EVENTS}/{EVENT}", patch)
        await until(lambda: cluster.permits.asked[-1].deadline == later, 60, "it asks anew")


SICK = {"condition": {"type": "Sick", "status": "True"}}


async def test_people_are_told_once_that_a_job_needs_them(cluster: Cluster) -> None:
    await a_node(cluster)
    steps = ({"label": {"key": "kubenode.io/suspect-seen", "value": "yes"}},
             {"notify": {"receivers": ["tool"], "message": "look at it"}})  # fmt: skip
    rung = {"name": "tell", "steps": list(steps), "verify": {"for": "1s", "timeout": "1s"}}
    async with http_receiver() as server:
        outside = {"receivers": {"tool": {"webhook": {"url": server.url}}}, "cluster": "prod-1"}
        await cluster.rule("sick", **a_rule(when=SICK, ladder=[rung], notify=["tool"]))
        async with operating(operator(cluster, outside=outside)):
            await cluster.say("w1", "Sick", "True")
            job = await cluster.wait(lambda j: NOTIFIED in j.metadata.annotations)
            assert job.status.phase is JobPhase.NEEDS_HUMAN
        step, human = server.taken
        assert (step["kind"], step["happened"]) == ("Step", "look at it")
        assert human["kind"] == "NeedsHuman" and human["cluster"] == "prod-1"
        assert f"kubenode job retry {job.metadata.name}" in human["commands"]
        other = operator(cluster, outside=outside)
        async with operating(other):
            await until(lambda: len(other.job.queue) == 0, 60, "it has looked")
            await until(lambda: len(other.teller.queue) == 0, 60, "it has looked")
        assert len(server.got) == 2


async def test_a_node_is_handed_to_another_remediator_and_taken_back(
    cluster: Cluster, with_crds: ControlPlane
) -> None:
    names = {"kind": "SelfNodeRemediation", "plural": "selfnoderemediations"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    crd = {
        "metadata": {"name": f"selfnoderemediations.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }
    definitions = paths.resource("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions")
    await cluster.kube.create(definitions, crd)
    await asyncio.to_thread(established, with_crds, [f"crd/selfnoderemediations.{GROUP}"])
    template = {
        **names,
        "apiVersion": f"{GROUP}/v1alpha1",
        "namespace": "default",
        "name": "{{ node }}",
        "spec": {"remediationStrategy": "Automatic"},
        "owner": {"apiVersion": "v1", "kind": "Node", "plural": "nodes", "name": "{{ node }}"},
        "doneWhen": {"condition": {"type": "Succeeded"}},
    }
    await a_node(cluster)
    async with http_receiver() as server:
        outside = {
            "receivers": {"tickets": {"webhook": {"url": server.url}}},
            "objects": {"snr": template},
        }
        steps = ({"webhook": {"receiver": "tickets"}}, {"createObject": {"template": "snr"}})
        rung = {"name": "hand-over", "disruption": "Node", "steps": steps, "verify": VERIFY}
        await cluster.rule("sick", **a_rule(when=SICK, ladder=[rung]))
        async with operating(operator(cluster, outside=outside)):
            await cluster.say("w1", "Sick", "True")
            job = await cluster.wait(lambda j: any(s.output.get("made") for s in j.status.steps))
            made = await cluster.kube.get(f"{OBJECTS}/w1")
            assert made["metadata"]["labels"] == {"kubenode.io/job": job.metadata.name}
            assert made["spec"] == {"remediationStrategy": "Automatic"}
            assert made["metadata"]["ownerReferences"][0]["kind"] == "Node"
            assert job.metadata.finalizers and cluster.permits.asked[0].class_ == "Node"
            done = {"status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}
            await cluster.kube.patch(f"{OBJECTS}/w1/status", done)
            await cluster.wait(lambda j: j.status.phase is JobPhase.VERIFYING)
            await cluster.say("w1", "Sick", "False")
            await cluster.wait(in_phase(JobPhase.SUCCEEDED))
            with pytest.raises(NotFound):
                await cluster.kube.get(f"{OBJECTS}/w1")
        assert len(server.got) == 1 and server.taken[0]["job"] == job.metadata.name
    await cluster.kube.delete(f"{definitions}/selfnoderemediations.{GROUP}")
