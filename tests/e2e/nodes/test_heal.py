"""A failed container runtime on a real Node is restarted by the agent; what ran goes on running."""

import json
import os
import time
from collections.abc import Callable
from functools import partial

import pytest
from support.health_checker import CONDITION, HealthChecker
from support.hosts import Host
from support.node_cluster import NodeCluster
from support.node_rules import RUNTIME, fail, rule, rung, timed
from support.pod_watch import PodWatch
from support.workloads import deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

NODE = "n1"
NAME = "runtime-failed"
RULE = rule(
    NAME,
    "runtime_down",
    {"condition": {"type": CONDITION, "for": "1s"}},
    rung("restart", {"agent": {"action": "RestartUnit", "unit": RUNTIME}}),
    attempts={"max": 100, "within": "24h"},
)
HEALS = int(os.environ.get("KUBENODE_HEALS", "1"))
"""More than one to measure: the figures are then those of the slowest."""


def containers(host: Host) -> set[str]:
    """The processes of all containers, by their number in the host."""
    shims = host.run("pgrep", "-f", "containerd-shim", check=False).stdout.split()
    return {child for shim in shims for child in host.run("pgrep", "-P", shim).stdout.split()}


def test_failed_runtime_is_restarted_and_containers_go_on_running(
    cluster: NodeCluster, figures: Callable[..., None]
) -> None:
    host = cluster.nodes[NODE]
    web = deployment("web", 3)

    def runs() -> bool:
        return host.unit(RUNTIME, "ActiveState") == "active"

    with (
        HealthChecker(cluster.cp, NODE, runs),
        cluster.scene(RULE, web),
        PodWatch(cluster) as watch,
    ):
        heals = []
        before = containers(host)
        assert before
        for done in range(HEALS):
            fault = fail(host)
            job = cluster.until(partial(cluster.closed, NAME, done), 120, "the job is closed")
            assert job["status"]["phase"] == "Succeeded", json.dumps(job["status"], indent=1)
            cluster.until(runs, 10, "containerd runs")
            cluster.until(lambda: NODE in cluster.in_service(), 60, f"{NODE} is in service")
            assert containers(host) == before
            assert watch.unavailable(fault, "web", 3, "", time.time()) == 0
            heals.append(timed(job, fault))
    worst = {key: max(heal[key] for heal in heals) for key in heals[0]}
    figures("runtime failed", times=HEALS, **worst)
