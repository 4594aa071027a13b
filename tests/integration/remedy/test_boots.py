"""A host whose kubelet does not come up after a boot: its agent tells it, and is asked of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from support.embedded import EmbeddedPlane
from support.remedy_cluster import Cluster, connected, now, operating
from support.remedy_engine import two_engines

from agent.heartbeat import BOOT_ID_ANNOTATION, micro_time
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.errors import AlreadyExists
from remedy.remedier.leases import AGENT_LEASES

pytestmark = pytest.mark.integration

SOON = timedelta(seconds=5)
"""A job that is not woken looks again after half a minute."""
RESTART: dict[str, Any] = {
    "name": "restart",
    "steps": [{"agent": {"action": "RestartUnit", "unit": "kubelet.service"}}],
}
REBOOT: dict[str, Any] = {"name": "reboot", "steps": [{"reboot": {"via": ["Agent"]}}]}


@pytest.fixture
async def cluster(plane: EmbeddedPlane) -> AsyncIterator[Cluster]:
    async with connected(plane) as found:
        with suppress(AlreadyExists):
            await found.kube.create(paths.namespaces(), {"metadata": {"name": AGENT_LEASES}})
        yield found


async def beats(cluster: Cluster, name: str, boot_id: str, *, first: bool = False) -> None:
    """The agent, by the clock of a host whose kubelet has told its last before."""
    annotations = {BOOT_ID_ANNOTATION: boot_id}
    spec = {"renewTime": micro_time(now() + timedelta(seconds=2)), "leaseDurationSeconds": 40}
    body: dict[str, Any] = {"metadata": {"annotations": annotations}, "spec": spec}
    if first:
        body["metadata"]["name"] = name
        await cluster.kube.create(paths.leases(AGENT_LEASES), body)
    else:
        await cluster.kube.patch(paths.lease(AGENT_LEASES, name), body)


@asynccontextmanager
async def ill(
    cluster: Cluster, name: str, boot_id: str, rung: dict[str, Any]
) -> AsyncIterator[None]:
    """A node with an agent that tells `boot_id`, whose kubelet is down while the operator runs."""
    await cluster.node(name)
    await beats(cluster, name, boot_id, first=True)
    await cluster.rule(
        "kubelet-down",
        mode="Enforce",
        faultClass="kubelet_down",
        nodes={"all": True},
        when={"condition": {"type": "KubeletUnhealthy", "status": "True"}},
        groupWait="0s",
        startupGrace="0s",
        ladder=[rung],
    )
    async with operating(cluster.operator(two_engines())):
        await cluster.say(name, "KubeletUnhealthy", "True")
        yield


async def test_an_agent_is_asked_of_the_boot_that_it_tells(cluster: Cluster) -> None:
    async with ill(cluster, "b1", "boot-after", RESTART):
        job = await cluster.wait(lambda j: j.status.phase == "Running" and bool(j.status.steps))
    (record,) = job.status.steps
    assert (record.by, record.boot_id) == ("Agent", "boot-after")
    assert job.status.owned.boot_id == "boot-after"


async def test_a_boot_is_proven_by_the_agents_word_alone_and_at_once(cluster: Cluster) -> None:
    async with ill(cluster, "b2", "boot-b2", REBOOT):
        await cluster.wait(
            lambda j: bool(j.status.steps) and j.status.steps[0].asked_at is not None
        )
        booted = now()
        await beats(cluster, "b2", "boot-after")
        job = await cluster.wait(lambda j: j.status.steps[0].state == "Done")
        took = now() - booted
    assert job.status.steps[0].message == "booted again: boot-after, before boot-b2"
    assert took < SOON, took
