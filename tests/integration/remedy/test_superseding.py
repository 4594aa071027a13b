"""A stronger rule takes a node over from the job of a weaker one, on a real kube-apiserver."""

from typing import Any

import pytest
from support.remedy_cluster import Cluster, operating
from support.remedy_engine import two_engines

from kubenode.runtime.kube import paths

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
WEAK, STRONG = "ContainerRuntimeUnhealthy", "KubeletUnhealthy"


def a_rule(condition: str, priority: int, *steps: dict[str, Any]) -> dict[str, Any]:
    rung = {"name": "repair", "steps": list(steps), "verify": {"for": "1s", "timeout": "30s"}}
    return {
        "mode": "Enforce",
        "priority": priority,
        "nodes": {"all": True},
        "when": {"condition": {"type": condition, "status": "True"}},
        "groupWait": "0s",
        "startupGrace": "0s",
        "ladder": [rung],
    }


async def cordon_of(cluster: Cluster, node: str) -> tuple[bool, str]:
    found = await cluster.kube.get(paths.node(node))
    mark = found["metadata"].get("annotations", {}).get("kubenode.io/cordoned-by", "")
    return found["spec"].get("unschedulable", False), mark


async def test_f08_the_stronger_rule_takes_over_node_and_cordon_and_heals(
    cluster: Cluster,
) -> None:
    await cluster.node("s1")
    migrate = {"migrate": {"timeout": "60s"}}
    act = {"agent": {"action": "RestartUnit", "unit": "containerd.service"}}
    await cluster.rule("weak", **a_rule(WEAK, 100, {"cordon": {}}, migrate, act))
    await cluster.rule("strong", **a_rule(STRONG, 900, {"cordon": {}}, act))
    await cluster.pod("s1", "default", "stays", "stays")
    budget = {
        "metadata": {"name": "stays"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "stays"}}},
    }
    await cluster.kube.create(paths.pod_disruption_budgets("default"), budget)
    async with operating(cluster.operator(two_engines())):
        await cluster.say("s1", WEAK, "True")
        first = await cluster.wait(lambda j: j.status.hold is not None and j.status.step == 1)
        assert await cordon_of(cluster, "s1") == (True, first.metadata.name)
    # While nobody is there the stronger fault comes, and the job is found as it was left.
    await cluster.say("s1", STRONG, "True")
    async with operating(cluster.operator(two_engines())):
        second = await cluster.wait(
            lambda j: (
                j.spec.supersedes == first.metadata.name
                and any(s.by == "Agent" for s in j.status.steps)
            )
        )
        assert await cordon_of(cluster, "s1") == (True, second.metadata.name)
        assert second.spec.remedier is not None and second.spec.remedier.name == "strong"
        lost = {other.remedier: other.why for other in second.status.also_matched}
        assert lost == {"weak": f"superseded: job {first.metadata.name}"}
        over = await cluster.wait(lambda j: j.status.phase == "Cancelled")
        assert over.status.message == "superseded: rule strong is stronger"
        assert not any(s.by == "Agent" for s in over.status.steps), "it never acted on the host"
        assert list(cluster.permits.held) == [second.status.permit and second.status.permit.name]
        await cluster.answer(second)
        await cluster.say("s1", WEAK, "False")
        await cluster.say("s1", STRONG, "False")
        await cluster.wait(
            lambda j: j.metadata.name == second.metadata.name and j.status.phase == "Succeeded"
        )
    assert await cordon_of(cluster, "s1") == (False, "")
    assert cluster.permits.held == {}
    await cluster.kube.delete(f"{paths.pod_disruption_budgets('default')}/stays")
