"""Storms on an API server: the real Kube Defender, and the remedy operator that asks it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from support.embedded import EmbeddedPlane
from support.remedy_cluster import Cluster
from support.remedy_engine import two_engines
from support.running import until
from support.storm_site import (
    ZONE,
    client,
    defending,
    open_permits,
    plane,
    policy,
    remedying,
    site,
    zones,
)

from defender.decision.breaker.step import PACE
from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube

pytestmark = pytest.mark.integration
FAULT = "ContainerRuntimeUnhealthy"
RESTART = {"agent": {"action": "RestartUnit", "unit": "containerd.service"}}
NEVER = {"trip": {"minNodes": 1_000_000}}
SPEED = 300.0
"""Ten minutes are two seconds."""


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPlane]:
    with plane() as found:
        yield found


@pytest.fixture
async def cluster(server: EmbeddedPlane) -> AsyncIterator[Cluster]:
    async with site(server) as found:
        yield found


@pytest.fixture
async def kube(server: EmbeddedPlane) -> AsyncIterator[Kube]:
    """Of the programs; the test's own hand has another."""
    made = client(server.server)
    yield made
    await made.close()


def a_rule(*steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    rung = {"name": "repair", "steps": list(steps), "verify": {"for": "1s", "timeout": "60s"}}
    return {
        "mode": "Enforce",
        "faultClass": "runtime_unhealthy",
        "nodes": {"all": True},
        "when": {"condition": {"type": FAULT, "status": "True"}},
        "groupWait": "0s",
        "startupGrace": "0s",
        "ladder": [rung],
        **changes,
    }


async def cordoned(cluster: Cluster) -> set[str]:
    nodes = (await cluster.kube.get(paths.nodes()))["items"]
    return {n["metadata"]["name"] for n in nodes if n.get("spec", {}).get("unschedulable")}


def held_by(job: RemedyOperationJob) -> str:
    return job.status.hold.reason if job.status.hold is not None else ""


async def all_jobs(cluster: Cluster, count: int, seconds: float = 60) -> list[RemedyOperationJob]:
    """Once `count` jobs each run or say why they do not."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        jobs = await cluster.jobs()
        telling = [j for j in jobs if held_by(j) or j.status.phase in ("Running", "Verifying")]
        if len(telling) >= count:
            return jobs
        assert asyncio.get_running_loop().time() < deadline, f"{len(telling)} of {count} jobs"
        await asyncio.sleep(0.1)


async def test_f13_cordons_do_not_outrun_the_drains_that_follow_them(
    cluster: Cluster, kube: Kube
) -> None:
    """75% of the nodes match at once, and no drain ends: as many are cordoned as may be drained."""
    nodes = await zones(cluster, 8)
    limit = {"scope": "Cluster", "maxConcurrent": 3}
    await policy(cluster, limits=[limit], breaker=NEVER)
    budget = {
        "metadata": {"name": "cart"},
        "spec": {"minAvailable": "100%", "selector": {"matchLabels": {"app": "cart"}}},
    }
    await cluster.kube.create(paths.pod_disruption_budgets("default"), budget)
    for node in nodes:
        await cluster.pod(node, "default", f"cart-{node}", "cart")
    drain = {"migrate": {"timeout": "10m"}}
    await cluster.rule("drain", **a_rule({"cordon": {}}, drain, RESTART))
    async with (
        defending(kube, len(nodes)) as defender,
        remedying(kube, defender, two_engines()),
    ):
        for node in nodes[:18]:
            await cluster.say(node, FAULT, "True")
        jobs = await all_jobs(cluster, 18)
        seen: set[int] = {len(await cordoned(cluster))}
        for _ in range(20):
            seen.add(len(await cordoned(cluster)))
            await asyncio.sleep(0.05)
        assert max(seen) == 3
        assert await cordoned(cluster) == {
            p.spec.node_name for p in await cluster.jobs() if p.status.owned.cordon
        }
        waiting = [j for j in jobs if held_by(j) == "ConcurrencyLimit"]
        assert len(waiting) == 15
    await cluster.kube.delete(f"{paths.pod_disruption_budgets('default')}/cart")
    await cluster.kube.call("DELETE", paths.pods("default"))


async def test_f46_a_storm_that_opens_the_breaker_does_not_keep_a_healed_node_cordoned(
    cluster: Cluster, kube: Kube
) -> None:
    nodes = await zones(cluster, 10)
    await policy(cluster, limits=[{"scope": "Cluster", "maxConcurrent": 3}])
    await cluster.rule("restart", **a_rule({"cordon": {}}, RESTART))
    async with (
        defending(kube, len(nodes)) as defender,
        remedying(kube, defender, two_engines()),
    ):
        await cluster.say("a0", FAULT, "True")
        asked = await cluster.wait(lambda j: any(s.by == "Agent" for s in j.status.steps))
        assert await cordoned(cluster) == {"a0"}
        for node in nodes[1:8]:
            await cluster.say(node, "Ready", "False")
        await until(lambda: bool(defender.control.breakers.opened()), 60, "the breaker is open")
        await cluster.answer(asked)
        await cluster.say("a0", FAULT, "False")
        done = await cluster.wait(lambda j: j.status.phase.closed and not j.metadata.finalizers)
        assert done.status.phase == "Succeeded"
        assert await cordoned(cluster) == set()
        assert await open_permits(cluster) == set()
        assert defender.control.breakers.opened()


async def test_a_zone_outage_is_held_and_said_a_fault_elsewhere_is_healed_and_all_goes_on_after(
    cluster: Cluster, kube: Kube
) -> None:
    """Six of a zone's ten nodes fail. Nothing is asked of their agents until that has passed."""
    nodes = await zones(cluster, 10)
    breaker = {
        "scopes": [{"scope": "Cluster"}, {"scope": "Label", "label": ZONE}],
        "open": "2s",
        "resume": {"start": 1, "factor": 2, "every": "1s"},
    }
    limit = {"scope": "Cluster", "maxConcurrent": 4, "classes": ["Host", "Pods", "Node"]}
    await policy(cluster, limits=[limit], breaker=breaker)
    await cluster.rule("restart", **a_rule(RESTART))
    async with (
        defending(kube, len(nodes), pace=PACE.faster(SPEED)) as defender,
        remedying(kube, defender, two_engines()),
    ):
        for node in nodes[:6]:
            await cluster.say(node, "Ready", "False")
        await until(lambda: bool(defender.control.breakers.opened()), 60, "the breaker is open")
        for node in nodes[:6]:
            await cluster.say(node, FAULT, "True")
        await cluster.say("b0", FAULT, "True")
        asked = await cluster.wait(lambda j: any(s.by == "Agent" for s in j.status.steps))
        assert asked.spec.node_name == "b0"
        jobs = await all_jobs(cluster, 7)
        held = [j for j in jobs if held_by(j) == "BreakerOpen"]
        assert {j.spec.node_name for j in held} == set(nodes[:6])
        assert all(j.status.hold and j.status.hold.scope == f"{ZONE}=a" for j in held)
        await cluster.answer(asked)
        await cluster.say("b0", FAULT, "False")
        await cluster.wait(lambda j: j.spec.node_name == "b0" and j.status.phase.closed)
        acted = {j.spec.node_name for j in await cluster.jobs() if j.status.steps}
        assert acted == {"b0"}

        for node in nodes[:6]:
            await cluster.say(node, "Ready", "True")
        for node in nodes[1:6]:
            await cluster.say(node, FAULT, "False")
        left = await cluster.wait(
            lambda j: j.spec.node_name == "a0" and any(s.by == "Agent" for s in j.status.steps)
        )
        await cluster.answer(left)
        await cluster.say("a0", FAULT, "False")
        await cluster.wait(lambda j: j.spec.node_name == "a0" and j.status.phase.closed)
        phases = {j.spec.node_name: str(j.status.phase) for j in await cluster.jobs()}
        assert phases["a0"] == "Succeeded"
        assert {phases[node] for node in nodes[1:6]} == {"Cancelled"}
        await until(lambda: not defender.control.breakers.status("default"), 60, "all is closed")
