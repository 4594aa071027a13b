"""From a condition to a healed node, on a real kube-apiserver."""

from typing import Any

import pytest
from support.remedy_cluster import Cluster, operating
from support.remedy_engine import two_engines
from support.running import until

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH
from kubenode.runtime.kube.errors import NotFound

pytestmark = pytest.mark.integration
FAULT = "ContainerRuntimeUnhealthy"


def a_rule(*steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    rung = {"name": "repair", "steps": list(steps), "verify": {"for": "1s", "timeout": "30s"}}
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


RESTART = {"agent": {"action": "RestartUnit", "unit": "containerd.service"}}


async def test_a_condition_becomes_a_job_and_the_job_a_healed_node(cluster: Cluster) -> None:
    kube = cluster.kube
    await cluster.node("w1")
    await cluster.rule(
        "runtime", **a_rule({"cordon": {}}, {"migrate": {"timeout": "60s"}}, RESTART)
    )
    for name in ("cart-1", "cart-2"):
        await cluster.pod("w1", "default", name, "cart")
    budget = {
        "metadata": {"name": "cart"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "cart"}}},
    }
    await kube.create(paths.pod_disruption_budgets("default"), budget)
    async with operating(cluster.operator(two_engines())):
        await cluster.say("w1", FAULT, "True")
        held = await cluster.wait(
            lambda j: j.status.hold is not None and j.status.hold.reason == "PDBBlocked"
        )
        assert held.status.hold is not None
        assert "PDB default/cart" in held.status.hold.message
        assert "default/cart-" in held.status.hold.message
        node = await kube.get(paths.node("w1"))
        assert node["spec"]["unschedulable"] is True
        assert node["metadata"]["annotations"]["kubenode.io/cordoned-by"] == held.metadata.name
        assert held.metadata.finalizers == ["kubenode.io/remedy"]

        await kube.delete(f"{paths.pod_disruption_budgets('default')}/cart")
        asked = await cluster.wait(lambda j: any(s.by == "Agent" for s in j.status.steps))
        assert await _pods(cluster, "w1") == []
        assert await cluster.answer(asked) == "r0s2a1"
        await cluster.say("w1", FAULT, "False")  # only what is reported after the act proves it

        done = await cluster.wait(lambda j: j.status.phase.closed and not j.metadata.finalizers)
        assert done.status.phase == "Succeeded"
        assert set(done.status.timeline.to_dict()) == {
            "faultSeen",
            "jobCreated",
            "permitGranted",
            "cordoned",
            "drained",
            "acted",
            "verified",
            "closed",
            "held",
            "podsUnavailable",
        }
        node = await kube.get(paths.node("w1"))
        assert not node["spec"].get("unschedulable")
        assert "kubenode.io/cordoned-by" not in node["metadata"].get("annotations", {})
        assert cluster.permits.held == {}
        assert len(await cluster.jobs()) == 1


async def _pods(cluster: Cluster, node: str) -> list[str]:
    query = {"fieldSelector": f"spec.nodeName={node}"}
    found = await cluster.kube.get(paths.pods(), query=query)
    return [pod["metadata"]["name"] for pod in found["items"]]


async def test_f19_a_node_that_a_person_cordoned_ends_cordoned(cluster: Cluster) -> None:
    await cluster.node("w2")
    await cluster.kube.patch(paths.node("w2"), {"spec": {"unschedulable": True}}, STRATEGIC_PATCH)
    await cluster.rule("runtime", **a_rule({"cordon": {}}, RESTART))
    async with operating(cluster.operator(two_engines())):
        await cluster.say("w2", FAULT, "True")
        asked = await cluster.wait(lambda j: any(s.by == "Agent" for s in j.status.steps))
        await cluster.answer(asked)
        await cluster.say("w2", FAULT, "False")
        done = await cluster.wait(lambda j: j.status.phase.closed)
    assert done.status.phase == "Succeeded"
    node = await cluster.kube.get(paths.node("w2"))
    assert node["spec"]["unschedulable"] is True


async def test_f08_a_persons_uncordon_cancels_and_no_second_job_follows(cluster: Cluster) -> None:
    await cluster.node("w3")
    await cluster.rule("runtime", **a_rule({"cordon": {}}, {"wait": {"for": "60s"}}, RESTART))
    async with operating(cluster.operator(two_engines())):
        await cluster.say("w3", FAULT, "True")
        await cluster.wait(lambda j: j.status.step == 1)
        await cluster.kube.patch(
            paths.node("w3"), {"spec": {"unschedulable": None}}, STRATEGIC_PATCH
        )
        done = await cluster.wait(lambda j: j.status.phase.closed)
        assert done.status.phase == "Cancelled"
        assert "a person uncordoned" in done.status.message
        await cluster.say("w3", FAULT, "True", "AgainAndAgain")
        await cluster.wait(lambda j: j.status.phase.closed)
        assert len(await cluster.jobs()) == 1
    assert cluster.permits.held == {}


async def test_a_rule_with_a_step_of_a_later_version_is_rejected_by_name(cluster: Cluster) -> None:
    await cluster.node("w4")
    await cluster.rule("boots", **a_rule({"cordon": {}}, {"replace": {"surge": "First"}}))
    async with operating(cluster.operator(two_engines())):
        await cluster.say("w4", FAULT, "True")
        status: dict[str, Any] = {}
        while status.get("phase") != "Rejected":
            found = await cluster.kube.get(paths.custom("noderemediers", "boots"))
            status = found.get("status", {})
        compiled = next(c for c in status["conditions"] if c["type"] == "Compiled")
        assert compiled["status"] == "False"
        assert (
            "step replace with surge First is not available in this version" in compiled["message"]
        )
        assert await cluster.jobs() == []


async def test_another_node_under_the_same_name_cancels_the_job(cluster: Cluster) -> None:
    await cluster.node("w5")
    await cluster.rule("runtime", **a_rule({"cordon": {}}, RESTART))
    async with operating(cluster.operator(two_engines())):
        await cluster.say("w5", FAULT, "True")
        await cluster.wait(lambda j: j.status.step == 1)
        await cluster.kube.delete(paths.node("w5"))
        done = await cluster.wait(lambda j: j.status.phase.closed)
    assert done.status.phase == "Cancelled"
    with pytest.raises(NotFound):
        await cluster.kube.get(paths.node("w5"))


async def test_a_storm_makes_one_job_for_each_node(cluster: Cluster) -> None:
    names = [f"s{i:03}" for i in range(40)]
    for name in names:
        await cluster.node(name)
    await cluster.rule("tell", **a_rule({"notify": {"message": "look"}}))
    async with operating(cluster.operator(two_engines())) as operator:
        for name in names:
            await cluster.say(name, FAULT, "True")
        await until(lambda: len(operator.informers.jobs.cache) == len(names), 60)
        await cluster.wait(lambda j: j.status.phase == "Verifying")
        made = [job.spec.node_name for job in await cluster.jobs()]
    assert sorted(made) == names
