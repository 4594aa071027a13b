"""A budget that allows no disruption: the slot goes back, the hold names the budget and the pod."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from support.agent_service import CountedUnit
from support.health_checker import CONDITION, HealthChecker
from support.node_cluster import API, NodeCluster
from support.node_rules import rule, rung
from support.pod_watch import PodWatch, instant
from support.workloads import budget, deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

NODE = "n2"
UNIT = "fabric"
NAME = "fabric-down"
RULE = rule(
    NAME,
    "fabric_down",
    {"condition": {"type": CONDITION, "for": "1s"}},
    rung(
        "restart",
        {"cordon": {}},
        {"migrate": {"timeout": "4s", "onTimeout": "Yield"}},
        {"agent": {"action": "RestartUnit", "unit": f"{UNIT}.service"}},
    ),
)


def test_budget_of_zero_frees_the_slot_and_is_named_with_its_pod(
    cluster: NodeCluster, figures: Callable[..., None]
) -> None:
    unit = CountedUnit(cluster.nodes[NODE], UNIT)
    web, none = deployment("web", 3), budget("web", maxUnavailable=0)
    with (
        HealthChecker(cluster.cp, NODE, lambda: unit.active == "active"),
        cluster.scene(RULE, web, none),
        PodWatch(cluster) as watch,
    ):
        unit.crash_until_it_stays_down()
        starts = unit.starts
        job = cluster.until(lambda: yielded(cluster), 90, "the job yields")
        (pod,) = [p for p in cluster.pods() if p["spec"]["nodeName"] == NODE]
        hold = job["status"]["hold"]
        assert hold["scope"] == "pdb=default/web"
        assert pod["metadata"]["name"] in hold["message"]
        assert held_slots(cluster) == [], "others may be repaired meanwhile"
        assert cluster.node(NODE)["spec"].get("unschedulable"), "the cordon stays"
        assert unit.starts == starts, "no later step ran"

        cluster.delete(none)
        job = cluster.until(lambda: cluster.closed(NAME), 120, "the job is closed")
        assert job["status"]["phase"] == "Succeeded", json.dumps(job["status"], indent=1)
        assert unit.starts == starts + 1
        cluster.until(lambda: NODE in cluster.in_service(), 60, f"{NODE} is in service")
        timeline = {k: instant(v) for k, v in job["status"]["timeline"].items() if "T" in str(v)}
        began = timeline["faultSeen"]
        figures(
            "budget of zero",
            drained=timeline["drained"] - began,
            closed=timeline["closed"] - began,
            pod_unavailable=watch.unavailable(began, "web", 3, "", watch.samples[-1].at),
        )


def yielded(cluster: NodeCluster) -> dict[str, Any] | None:
    """The job, once it has given back its permit over the budget."""
    for job in cluster.jobs(NAME):
        status = job.get("status", {})
        blocked = status.get("hold", {}).get("reason") == "PDBBlocked"
        if blocked and status["phase"] == "AwaitingPermit" and "permit" not in status:
            return job
    return None


def held_slots(cluster: NodeCluster) -> list[str]:
    permits = cluster.cp.get(f"{API}/permits")["items"]
    return [p["spec"]["nodeName"] for p in permits if "releasedAt" not in p.get("status", {})]
