"""A hung host, its fence and its replacement on a real kube-apiserver, the provider in memory."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from support.power_provider import MemoryProvider
from support.remedy_builders import a_job
from support.remedy_cluster import Cluster, condition, operating
from support.remedy_engine import two_engines
from support.running import running

from kubenode.api.v1alpha1 import JobPhase
from kubenode.providers.registry import Providers
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH, Kube
from kubenode.runtime.kube.errors import Conflict
from remedy.job.model import Job
from remedy.power.fencing import Fencing

pytestmark = pytest.mark.integration
FAULT = "HostHung"
CYCLE: dict[str, Any] = {
    "name": "power-cycle",
    "steps": [{"cordon": {}}, {"migrate": {"timeout": "30s"}}, {"powerCycle": {"timeout": "20s"}}],
    "verify": {"for": "1s", "timeout": "20s", "settle": "0s"},
}
REPLACE: dict[str, Any] = {
    "name": "replace",
    "steps": [
        {"powerOff": {"timeout": "20s"}},
        {"fence": {"timeout": "20s"}},
        {"replace": {"timeout": "30s"}},
    ],
    "verify": {"for": "1s", "timeout": "20s"},
}
OUT = "node.kubernetes.io/out-of-service"


def a_rule(*ladder: dict[str, Any]) -> dict[str, Any]:
    return {
        "mode": "Enforce",
        "faultClass": "host_hung",
        "nodes": {"all": True},
        "when": {"condition": {"type": FAULT, "status": "True"}},
        "groupWait": "0s",
        "startupGrace": "0s",
        "ladder": list(ladder),
    }


async def a_machine(cluster: Cluster, name: str) -> dict[str, Any]:
    """A node of a group, with its machine."""
    made = await cluster.node(name, labels={"kubenode.io/pool": "pool-a"})
    patch = {"spec": {"providerID": f"memory:///{name}"}}
    await cluster.kube.patch(paths.node(name), patch)
    return made


async def taints(kube: Kube, node: str) -> list[str]:
    """But those that the node controller sets and takes off by itself at any time."""
    found = await kube.get(paths.node(node))
    keys = [t["key"] for t in found["spec"].get("taints") or []]
    return [k for k in keys if k == OUT or not k.startswith("node.kubernetes.io/")]


async def insist(act: Callable[[Job], Awaitable[None]], job: Job) -> None:
    """As the controller: after a conflict it is tried again."""
    for last in (*[False] * 20, True):
        try:
            return await act(job)
        except Conflict:
            if last:
                raise


async def test_a_hung_host_is_power_cycled_and_its_new_boot_ends_the_job(cluster: Cluster) -> None:
    await a_machine(cluster, "p1")

    booted = asyncio.Event()

    async def boots(node: str) -> None:
        patch = {"status": {"nodeInfo": {"bootID": "boot-after"}}}
        await cluster.kube.patch(paths.node(node, "status"), patch, STRATEGIC_PATCH)
        booted.set()

    async def detector() -> None:
        """Goes on saying that all is well: only a report of after the act proves it."""
        await booted.wait()
        await cluster.say("p1", FAULT, "False")
        while True:
            again = condition(FAULT, "False", "Test")
            del again["lastTransitionTime"]
            patch = {"status": {"conditions": [again]}}
            await cluster.kube.patch(paths.node("p1", "status"), patch, STRATEGIC_PATCH)
            await asyncio.sleep(0.5)

    provider = MemoryProvider(boots=boots)
    await cluster.rule("hung", **a_rule(CYCLE, REPLACE))
    operator = cluster.operator(two_engines(), providers=Providers([provider]))
    async with operating(operator), running(detector()):
        await cluster.say("p1", FAULT, "True")
        healed = await cluster.wait(lambda j: j.status.phase is JobPhase.SUCCEEDED)
    assert provider.asked == [("off", "p1"), ("on", "p1")]
    assert len(set(provider.requests)) == 2, "each request has an ID of its own"
    record = next(r for r in healed.status.steps if r.name == "powerCycle")
    assert record.message == "booted again: boot-after, before boot-p1"
    node = await cluster.kube.get(paths.node("p1"))
    assert not node["spec"].get("unschedulable") and cluster.permits.held == {}


async def test_a_host_that_never_comes_back_is_dark_fenced_and_replaced(cluster: Cluster) -> None:
    await a_machine(cluster, "p2")
    fenced: list[list[str]] = []

    async def replaced(node: str) -> None:
        """As the cloud: the Node goes with its instance, a new one of the group comes."""
        fenced.append(await taints(cluster.kube, node))
        await cluster.kube.delete(paths.node(node))
        await a_machine(cluster, "p2-new")

    provider = MemoryProvider(replaced=replaced)
    cycle = CYCLE | {"steps": [{"cordon": {}}, {"powerCycle": {"timeout": "3s"}}]}
    await cluster.rule("hung", **a_rule(cycle, REPLACE))
    operator = cluster.operator(two_engines(), providers=Providers([provider]))
    async with operating(operator):
        await cluster.say("p2", FAULT, "True")
        job = await cluster.wait(lambda j: j.status.phase.closed or j.status.phase == "NeedsHuman")
    told = {f"{r.rung}.{r.name}": (str(r.state), r.message) for r in job.status.steps}
    assert job.status.phase is JobPhase.SUCCEEDED, told
    assert told["0.powerCycle"][0] == "Failed" and "new boot within 3s" in told["0.powerCycle"][1]
    assert told["1.replace"] == ("Done", "replaced by p2-new through InstanceGroup")
    assert OUT in fenced[0], "fenced before it was given up"
    assert [w for w, _ in provider.asked] == ["off", "on", "off", "replace"]
    assert cluster.permits.held == {}


@dataclass
class Meddled:
    """The client of a Fencing: somebody else adds a taint between its read and its write."""

    kube: Kube
    meddle: bool = True

    async def get(self, path: str) -> dict[str, Any]:
        found = await self.kube.get(path)
        if self.meddle:
            self.meddle = False
            theirs = {"key": "example.com/theirs", "effect": "NoSchedule"}
            others = [t for t in found["spec"].get("taints") or [] if t["key"] != theirs["key"]]
            body = {"spec": {"taints": [*others, {**theirs, "value": str(len(others))}]}}
            await self.kube.patch(path, body)
        return found

    async def patch(self, path: str, body: Any) -> dict[str, Any]:
        return await self.kube.patch(path, body)


async def test_f29_a_taint_that_comes_in_between_is_a_conflict_and_both_survive(
    cluster: Cluster,
) -> None:
    made = await cluster.node("p3", labels={"kubenode.io/pool": "pool-a"})
    job = a_job(nodeName="p3", nodeUID=made["metadata"]["uid"])
    between = Meddled(cluster.kube)
    fencing = Fencing(between)
    with pytest.raises(Conflict):
        await fencing.fence(job)
    assert OUT not in await taints(cluster.kube, "p3")
    await insist(fencing.fence, job)
    assert {OUT, "example.com/theirs"} <= set(await taints(cluster.kube, "p3"))
    between.meddle = True
    with pytest.raises(Conflict):
        await fencing.unfence(job)
    await insist(fencing.unfence, job)
    left = await taints(cluster.kube, "p3")
    assert OUT not in left and left == ["example.com/theirs"]


async def test_a_fence_of_somebody_else_is_not_taken_off(cluster: Cluster) -> None:
    made = await cluster.node("p4")
    theirs = {"key": OUT, "value": "nodeshutdown", "effect": "NoExecute"}
    await cluster.kube.patch(paths.node("p4"), {"spec": {"taints": [theirs]}})
    job = a_job(nodeName="p4", nodeUID=made["metadata"]["uid"])
    fencing = Fencing(cluster.kube)
    await insist(fencing.fence, job)
    await insist(fencing.unfence, job)
    assert await taints(cluster.kube, "p4") == [OUT]


async def test_another_node_under_the_same_name_is_neither_fenced_nor_freed(
    cluster: Cluster,
) -> None:
    await cluster.node("p5")
    await Fencing(cluster.kube).fence(a_job(nodeName="p5", nodeUID="uid-of-its-predecessor"))
    assert await taints(cluster.kube, "p5") == []
