"""A reboot from which the host never comes back: switched off with proof, fenced, so that what it
held runs elsewhere; and with nobody to replace it, a person is asked.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from support.health_checker import CONDITION, MESSAGES, REASONS
from support.node_cluster import NodeCluster
from support.node_rules import rule, rung, timed
from support.pod_watch import PodWatch
from support.programs import KUBENODE
from support.waiting import until
from support.workloads import budget, deployment, stateful_set

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

NAME = "runtime-hangs"
NEVER = 1_000_000
RULE = rule(
    NAME,
    "runtime_hung",
    {"condition": {"type": CONDITION, "for": "1s"}},
    rung("reboot", {"cordon": {}}, {"reboot": {"via": ["Agent"], "timeout": "20s"}}),
    rung(
        "replace",
        {"powerOff": {"timeout": "60s"}},
        {"fence": {"timeout": "60s"}},
        {"replace": {"timeout": "30s"}},
    ),
    onGiveUp="Hold",
)


@contextmanager
def reported(cluster: NodeCluster, node: str) -> Iterator[float]:
    """A detector says so until somebody has heard it, and then hangs with its host; seconds since
    the epoch. The agent of a host that has just booted may say once that its runtime is well.
    """

    def say(status: str, since: float) -> None:
        condition = {
            "type": CONDITION,
            "status": status,
            "reason": REASONS[status],
            "message": MESSAGES[status],
            "lastHeartbeatTime": _stamp(time.time()),
            "lastTransitionTime": _stamp(since),
        }
        body = json.dumps({"status": {"conditions": [condition]}})
        cluster.cp.kubectl(
            "patch", "node", node, "--subresource=status", "--type=strategic", "-p", body
        )

    def heard() -> bool:
        if cluster.jobs(NAME):
            return True
        say("True", at)
        return False

    at = time.time()
    try:
        until(heard, "the job is there", 60, cluster.why, every=2)
        yield at
    finally:
        say("False", time.time())


def _stamp(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def test_host_that_never_comes_back_is_proven_off_and_fenced_and_a_person_is_asked(
    cluster: NodeCluster, figures: Callable[..., None]
) -> None:
    web, db = deployment("web", 3), stateful_set("db", 2)
    with (
        cluster.scene(RULE, web, budget("web", minAvailable=2), db),
        PodWatch(cluster, stateful=("db-",)) as watch,
    ):
        node = cluster.node_of("db-0")
        host = cluster.nodes[node]
        host.board(f"delay {NEVER}")
        with reported(cluster, node) as fault:
            job = cluster.until(lambda: cluster.closed(NAME), 240, "the job is closed")
            told = json.dumps(job["status"], indent=1)
            assert job["status"]["phase"] == "NeedsHuman", told
            assert host.board("state") == "off"
            spec = cluster.node(node)["spec"]
            assert spec.get("unschedulable")
            assert any("out-of-service" in taint["key"] for taint in spec["taints"]), told
            cluster.until(lambda: cluster.runs(db) and cluster.runs(web), 90, "all pods run")
            assert node not in {p["spec"]["nodeName"] for p in cluster.pods()}
            cluster.until(lambda: watch.serving("db", node) >= 2, 30, "the watch has seen it")
        elsewhere = watch.elsewhere_after(fault, "db", 2, node)

        host.board("delay 0")
        host.board("on")
        end = [str(KUBENODE), "job", "close", job["metadata"]["name"], "--kubeconfig"]
        subprocess.run([*end, str(cluster.cp.kubeconfig)], check=True, timeout=60)
        cluster.until(lambda: node in cluster.in_service(), 120, f"{node} is in service again")
        assert cluster.closed(NAME) is not None
    assert watch.most_running == {"db-0": 1, "db-1": 1}, "each once at any time"
    figures(
        "reboot without end", noticed=timed(job, fault)["noticed"], stateful_elsewhere=elsewhere
    )
