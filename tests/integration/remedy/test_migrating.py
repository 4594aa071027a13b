"""Pods of real controllers leave a node, on a real kube-apiserver with scheduler."""

from typing import Any

import pytest
from support.pretend_kubelets import Kubelets, kubelets, until
from support.remedy_cluster import Cluster, operating
from support.remedy_engine import two_engines

from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.runtime.kube import paths

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
FAULT = "ContainerRuntimeUnhealthy"


def a_rule(**migrate: Any) -> dict[str, Any]:
    steps = [{"cordon": {}}, {"migrate": {"timeout": "2m", **migrate}}]
    return {
        "mode": "Enforce",
        "faultClass": "runtime_unhealthy",
        "nodes": {"all": True},
        "when": {"condition": {"type": FAULT, "status": "True"}},
        "groupWait": "0s",
        "startupGrace": "0s",
        "ladder": [{"name": "drain", "steps": steps, "verify": {"for": "1s", "timeout": "5m"}}],
    }


def workload(kind: str, app: str, replicas: int, node: str = "") -> dict[str, Any]:
    labels = {"app": app}
    containers = [{"name": "c", "image": "none"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    if kind == "StatefulSet":
        spec |= {"serviceName": app, "podManagementPolicy": "Parallel"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": app}, "spec": spec}


async def deploy(world: Kubelets, kind: str, app: str, replicas: int) -> None:
    plural = f"/apis/apps/v1/namespaces/{world.of}/{kind.lower()}s"
    await world.cluster.kube.create(plural, workload(kind, app, replicas))

    async def runs() -> bool:
        found = await world.cluster.kube.get(f"{plural}/{app}")
        return bool(found["status"].get("readyReplicas", 0) >= replicas)

    await until(runs)
    world.watch(app)


async def budget(world: Kubelets, name: str, app: str, least: int) -> None:
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
    path = paths.pod_disruption_budgets(world.of)
    await world.cluster.kube.create(path, {"metadata": {"name": name}, "spec": spec})


def drained(job: RemedyOperationJob) -> bool:
    return job.status.timeline.drained is not None


async def on(world: Kubelets, node: str) -> list[str]:
    found = [p for p in await world.pods() if p["spec"].get("nodeName") == node]
    return [p["metadata"]["name"] for p in found]


async def test_with_surge_a_deployment_never_has_a_ready_pod_less(cluster: Cluster) -> None:
    async with kubelets(cluster, "surging") as world:
        await world.node("m1")
        await deploy(world, "Deployment", "web", 3)
        await budget(world, "web", "web", 3)
        await world.node("m2")
        await cluster.rule("runtime", **a_rule(surge="First"))
        async with operating(cluster.operator(two_engines())):
            await cluster.say("m1", FAULT, "True")
            job = await cluster.wait(drained, 90)
            path = paths.apps("deployments", "surging", "web")
            live = await cluster.kube.get(path)
            assert live["spec"]["replicas"] == 3
            marks = [k for k in live["metadata"]["annotations"] if "kubenode.io" in k]
            assert marks == []
            node = await cluster.kube.get(paths.node("m1"))
            assert node["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
        assert await on(world, "m1") == []
        assert world.least["web"] == 3, "not even the budget of all three was in the way"
        record = next(r for r in job.status.steps if r.name == "migrate")
        assert "surge" not in record.output and record.output["evicted"] == "3"


async def test_pods_of_a_stateful_set_move_one_by_one(cluster: Cluster) -> None:
    async with kubelets(cluster, "sets") as world:
        await world.node("m3")
        await deploy(world, "StatefulSet", "db", 3)
        await world.node("m4")
        await cluster.rule("runtime", **a_rule())
        async with operating(cluster.operator(two_engines())):
            await cluster.say("m3", FAULT, "True")
            await cluster.wait(drained, 90)
        assert await on(world, "m3") == []
        assert world.least["db"] == 2


async def test_f17_two_budgets_are_a_hold_that_names_both_and_bare_pods_stay(
    cluster: Cluster,
) -> None:
    async with kubelets(cluster, "budgets") as world:
        await world.node("m5")
        await deploy(world, "Deployment", "cart", 2)
        await deploy(world, "Deployment", "web", 4)
        for name in ("one", "two"):
            await budget(world, name, "cart", 1)
        bare = {
            "metadata": {"name": "bare"},
            "spec": {"nodeName": "m5", "containers": [{"name": "c", "image": "none"}]},
        }
        await cluster.kube.create(paths.pods(world.of), bare)
        await world.node("m6")
        await cluster.rule("runtime", **a_rule())
        async with operating(cluster.operator(two_engines())):
            await cluster.say("m5", FAULT, "True")
            held = await cluster.wait(
                lambda j: j.status.hold is not None and j.status.hold.reason == "PDBBlocked"
            )
            assert held.status.hold is not None
            assert "budgets/one, budgets/two" in held.status.hold.message

            async def others_leave() -> bool:
                return not [n for n in await on(world, "m5") if n.startswith("web")]

            await until(others_leave)
            await cluster.kube.delete(f"{paths.pod_disruption_budgets(world.of)}/two")
            job = await cluster.wait(drained, 90)
        assert await on(world, "m5") == ["bare"]
        record = next(r for r in job.status.steps if r.name == "migrate")
        assert "1 stay: budgets/bare" in record.message
