"""A host that hangs, under the rule that we ship: noticed by its silence, emptied as far as that
goes, and power-cycled through its provider; its new boot frees what hung there.
"""

import json
import time
from collections.abc import Callable

import pytest
from support.node_cluster import NodeCluster
from support.node_rules import shipped, timed
from support.pod_watch import PodWatch
from support.workloads import budget, deployment, stateful_set

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

NAME = "host-hung"
RULES = (
    shipped("kubelet-runtime/host-hung.yaml", startupGrace="0s"),
    # What its guards ask for: the fault of a rack, of a zone or of the way to us is none of a host.
    shipped("correlated/rack-power-loss.yaml"),
    shipped("correlated/zone-network-loss.yaml"),
    shipped("correlated/control-path-loss.yaml"),
    shipped("correlated/silent-together.yaml"),
)


def test_hung_host_is_power_cycled_and_its_pods_run_elsewhere_before(
    cluster: NodeCluster, figures: Callable[..., None]
) -> None:
    web, db = deployment("web", 3), stateful_set("db", 2)
    with (
        cluster.scene(*RULES, web, budget("web", minAvailable=2), db),
        PodWatch(cluster, stateful=("db-",)) as watch,
    ):
        node = cluster.node_of("db-0")
        host = cluster.nodes[node]
        before, uid = host.boot_id(), cluster.pod("db-0")["metadata"]["uid"]
        fault = time.time()
        host.hang()
        job = cluster.until(lambda: cluster.closed(NAME), 180, "the job is closed")
        assert job["status"]["phase"] == "Succeeded", json.dumps(job["status"], indent=1)
        assert job["spec"]["nodeName"] == node
        assert host.boot_id() not in ("", before)
        cluster.until(lambda: node in cluster.in_service(), 60, f"{node} is in service")
        cluster.until(lambda: cluster.runs(db) and cluster.runs(web), 60, "all pods run")
        assert cluster.pod("db-0")["metadata"]["uid"] != uid, "the hung pod is gone"
    assert watch.most_running == {"db-0": 1, "db-1": 1}, "each once at any time"
    figures(
        "host hung",
        **timed(job, fault),
        pods_elsewhere=watch.elsewhere_after(fault, "web", 3, node),
        node_back=watch.back_after(fault, node),
        pod_unavailable=watch.unavailable(fault, "web", 3, node, watch.samples[-1].at),
        stateful_unavailable=watch.unavailable(fault, "db", 2, node, watch.samples[-1].at),
    )
