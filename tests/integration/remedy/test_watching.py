"""A rule that only watches is loaded with steps that are yet to come, and takes none of them."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from support.embedded import EmbeddedPlane
from support.remedy_cluster import Cluster, connected, operating
from support.remedy_engine import two_engines

from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.errors import NotFound

pytestmark = pytest.mark.integration
BOOT = [{"name": "boot", "steps": [{"cordon": {}}, {"replace": {"surge": "First"}}]}]
WATCHES: dict[str, Any] = {
    "mode": "DryRun",
    "nodes": {"all": True},
    "when": {"condition": {"type": "Sick", "status": "True"}},
    "groupWait": "0s",
    "startupGrace": "0s",
    "ladder": BOOT,
}


@pytest.fixture
async def cluster(plane: EmbeddedPlane) -> AsyncIterator[Cluster]:
    async with connected(plane) as found:
        yield found


async def status_of(cluster: Cluster, rule: str, phase: str) -> dict[str, Any]:
    deadline = SystemClock().monotonic() + 30
    while True:
        found = await cluster.kube.get(paths.custom("noderemediers", rule))
        status: dict[str, Any] = found.get("status", {})
        if status.get("phase") == phase:
            return status
        assert SystemClock().monotonic() < deadline, status
        await SystemClock().sleep(0.05)


async def dry_runs(cluster: Cluster, node: str) -> list[dict[str, Any]]:
    """What the node's record tells of rules in DryRun, once there is one."""
    deadline = SystemClock().monotonic() + 30
    while True:
        with suppress(NotFound):
            found = await cluster.kube.get(paths.custom("noderecords", node))
            if runs := found["spec"].get("dryRuns"):
                return list(runs)
        assert SystemClock().monotonic() < deadline, node
        await SystemClock().sleep(0.05)


async def test_a_rule_in_dry_run_with_a_step_to_come_makes_no_job(cluster: Cluster) -> None:
    await cluster.node("d1")
    await cluster.rule("boots", **WATCHES)
    async with operating(cluster.operator(two_engines())):
        await status_of(cluster, "boots", "Active")
        await cluster.say("d1", "Sick", "True")
        (run,) = await dry_runs(cluster, "d1")
        assert (run["remedier"], run["count"]) == ("boots", 1)
        assert run["recent"][0]["said"].startswith("Kube Defender would have")
        assert await cluster.jobs() == []
        assert [ask.dry_run for ask in cluster.permits.asked] == [True]
        node = await cluster.kube.get(paths.node("d1"))
        assert not node.get("spec", {}).get("unschedulable")


async def test_a_person_who_lets_it_act_is_refused_and_it_goes_on_watching(
    cluster: Cluster,
) -> None:
    for name in ("d2", "d3"):
        await cluster.node(name)
    await cluster.rule("boots", **WATCHES)
    async with operating(cluster.operator(two_engines())):
        await status_of(cluster, "boots", "Active")
        await cluster.say("d2", "Sick", "True")
        await dry_runs(cluster, "d2")
        acts = {"spec": {"mode": "Enforce"}}
        await cluster.kube.patch(paths.custom("noderemediers", "boots"), acts)
        status = await status_of(cluster, "boots", "Rejected")
        (compiled,) = (c for c in status["conditions"] if c["type"] == "Compiled")
        assert (
            "step replace with surge First is not available in this version" in compiled["message"]
        )
        await cluster.say("d3", "Sick", "True")
        await dry_runs(cluster, "d3")
        assert await cluster.jobs() == []
        assert {ask.dry_run for ask in cluster.permits.asked} == {True}
