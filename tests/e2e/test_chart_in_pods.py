"""The chart as users install it: images of this checkout in pods of real kubelets, installed,
tested, upgraded and uninstalled by Helm. No program runs beside the pods.
"""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from support import pod_network
from support.api_everything import everything
from support.api_objects import GOOD, changed
from support.command import kubenode, started
from support.components import CLUSTER_NETWORK, CONTROL_PLANE, HELM, HOSTS, IMAGES, require
from support.control_plane import ControlPlane
from support.health_checker import CONDITION, HealthChecker
from support.helm import CHART, NAMESPACE, Helm
from support.hosts import Hosts
from support.images import AGENT, OPERATORS, agent_archive, operators_archive
from support.kubelet_hosts import QUICK, KubeletHosts
from support.node_cluster import POLICY
from support.node_rules import RUNTIME, fail, rule, rung
from support.pod_network import PodNetwork
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]

API = "/apis/kubenode.io/v1alpha1"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
NODES = ("n1", "n2")
PARTS = ("defender", "machine", "remedy")
PATIENCE = 120.0
CLOSED = ("Succeeded", "Failed", "Cancelled", "NeedsHuman")
RELEASE = ("kubenode", CHART, "-n", NAMESPACE, "--wait", "--timeout", "5m")
VALUES = {
    "image": {"repository": OPERATORS.rpartition(":")[0]},
    "agent": {"enabled": True, "image": {"repository": AGENT.rpartition(":")[0]}},
    "defender": {"dashboard": {"enabled": True}},
}
RESTART = rule(
    "runtime-failed",
    "runtime_down",
    {"condition": {"type": CONDITION, "for": "1s"}},
    rung("restart", {"agent": {"action": "RestartUnit", "unit": RUNTIME}}),
)
DURATIONS = "apiserver_admission_webhook_admission_duration_seconds_count"
FAIL_OPEN = "apiserver_admission_webhook_fail_open_count"
IMPORT_EVERYTHING = """
import importlib, pathlib, pkgutil, sys
for name in sys.argv[1:]:
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
        if not module.name.endswith(("__main__", "cli.simulation")):
            importlib.import_module(module.name)
import ctypes, zoneinfo, ssl
zoneinfo.ZoneInfo("Asia/Shanghai")
assert ssl.create_default_context().get_ca_certs()
"""
"""Fails if a module needs a library that the image lacks. `cli.simulation` refuses by design."""


class PodCluster:
    """Two real Nodes, with the images of this checkout in their containerd."""

    def __init__(self, cp: ControlPlane, nodes: KubeletHosts, folder: Path) -> None:
        self.cp, self.nodes = cp, nodes
        self.helm = Helm(folder, cp.kubeconfig)

    def container(self, image: str, *words: str) -> str:
        """Run a command in a new container and return its output. Raises HostError."""
        name = f"t{time.monotonic_ns()}"
        run = ("ctr", "-n", "k8s.io", "run", "--rm", image, name, *words)
        return self.nodes[NODES[0]].run(*run).stdout

    def pods(self) -> dict[str, dict[str, Any]]:
        """The pods of the three programs by name."""
        items = self.cp.get(f"{CORE}/pods")["items"]
        return {
            pod["metadata"]["name"]: pod
            for pod in items
            if pod["metadata"]["name"].startswith(tuple(f"kubenode-{part}-" for part in PARTS))
        }

    def why(self) -> str:
        shown = self.cp.kubectl("get", "pods,events", "-A", "-o", "wide", check=False).stdout
        logs = [
            f"--- {file}\n{file.read_text()[-2000:]}"
            for name in self.nodes
            for file in (self.nodes[name].root / "var/log/pods").glob("kubenode-system_*/*/*.log")
        ]
        return "\n".join([shown, *logs])

    def apply(self, thing: dict[str, Any], check: bool = True) -> str:
        done = self.cp.kubectl("apply", "-f", "-", stdin=json.dumps(thing), check=check)
        return done.stdout + done.stderr


@contextmanager
def pod_cluster(folder: Path) -> Iterator[PodCluster]:
    archives = {"kubenode": operators_archive(), "agent": agent_archive()}
    binds = {archive.parent: f"/opt/kubenode/{name}" for name, archive in archives.items()}
    with ExitStack() as stack:
        hosts = stack.enter_context(Hosts())
        plane = ControlPlane(
            address=hosts.gateway, controller_args=QUICK, apiserver_args=pod_network.SERVICES
        )
        cp = stack.enter_context(plane)
        nodes = stack.enter_context(KubeletHosts(hosts, cp, dns=hosts.gateway))
        for name in NODES:
            host = nodes.boot(name, zone=name, bind=binds)
            for image, archive in archives.items():
                path = f"/opt/kubenode/{image}/{archive.name}"
                host.run("ctr", "-n", "k8s.io", "images", "import", path, timeout=300)
        stack.enter_context(PodNetwork(cp, nodes, hosts.gateway))
        nodes.wait_ready()
        yield PodCluster(cp, nodes, folder)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    for component in (HOSTS, CONTROL_PLANE, HELM, CLUSTER_NETWORK, IMAGES):
        require(component)
    with pod_cluster(tmp_path_factory.mktemp("pods")) as made:
        yield made


def test_every_module_of_an_image_can_be_imported_in_a_container(cluster: PodCluster) -> None:
    assert cluster.container(OPERATORS, "kubenode", "--version").startswith("kubenode ")
    assert "--webhook-port" in cluster.container(OPERATORS, "kubenode", "run", "remedy", "--help")
    assert "usage" in cluster.container(AGENT, "python3", "-P", "-m", "agent", "--help").lower()
    python = ("/opt/kubenode/bin/python3", "-P", "-c", IMPORT_EVERYTHING)
    operators = ("defender", "kubenode", "machine", "remedy", "rules", "re2", "durable")
    cluster.container(OPERATORS, *python, *operators)
    cluster.container(AGENT, *python, "agent", "re2", "dbus_fast")
    assert "util-linux" in cluster.container(AGENT, "nsenter", "--version")


def test_the_chart_is_installed_answers_is_upgraded_and_uninstalled(cluster: PodCluster) -> None:
    """One installation for all that needs one."""
    cp = cluster.cp
    pristine = everything(cp)
    installed = cluster.helm.run(
        "install", *RELEASE, "--create-namespace", values=VALUES, limit=400
    )
    assert installed.returncode == 0, installed.stderr + cluster.why()
    every_replica_is_ready_and_one_of_each_leads(cluster)
    webhooks_answer_through_their_services(cluster)
    tested = cluster.helm.run("test", "kubenode", "-n", NAMESPACE)
    assert tested.returncode == 0, tested.stderr + cluster.why()
    the_dashboard_opens_through_a_forwarded_port(cluster)
    the_agents_pod_restarts_the_runtime_of_its_host(cluster)
    a_rule_in_dry_run_stores_its_result(cluster)
    an_upgrade_to_itself_changes_no_pod(cluster)
    everything_is_uninstalled(cluster)
    assert everything(cp) - pristine == set()


def every_replica_is_ready_and_one_of_each_leads(cluster: PodCluster) -> None:
    pods = cluster.pods()
    assert len(pods) == 2 * len(PARTS), cluster.why()
    assert {pod["spec"]["nodeName"] for pod in pods.values()} == set(NODES)
    for pod in pods.values():
        (status,) = pod["status"]["containerStatuses"]
        assert status["ready"] and status["restartCount"] == 0, cluster.why()
    leases = cluster.cp.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases")["items"]
    holders = {lease["metadata"]["name"]: lease["spec"]["holderIdentity"] for lease in leases}
    for part in PARTS:
        assert holders[f"kubenode-{part}"].startswith(f"kubenode-{part}-"), holders


def webhooks_answer_through_their_services(cluster: PodCluster) -> None:
    cordons = rung("cordon", {"cordon": {}})
    unknown_fact = rule("wrong", "broken", {"fact": {"name": "no.suchFact"}}, cordons)
    refused = cluster.apply(unknown_fact, check=False)
    assert 'admission webhook "noderemediers.kubenode.io" denied the request' in refused
    inline = {"inline": "${nobody.knows}"}
    component = dict(changed(GOOD["component"], "spec.files.0.content", inline))
    refused = cluster.apply(component, check=False)
    assert 'admission webhook "machines.kubenode.io" denied the request' in refused
    spare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "spare"}}
    cluster.apply(spare)
    cluster.cp.kubectl("delete", "node", "spare")
    answers = [line for line in cluster.cp.metrics().splitlines() if DURATIONS in line]
    assert [line for line in answers if 'name="deletions.guard.kubenode.io"' in line], answers
    failures = [line for line in cluster.cp.metrics().splitlines() if line.startswith(FAIL_OPEN)]
    assert not failures, failures


def the_dashboard_opens_through_a_forwarded_port(cluster: PodCluster) -> None:
    """The kubelet of the leader's pod forwards it; the login is that of a service account."""
    kubectl = cluster.cp.kubectl
    kubectl("-n", NAMESPACE, "create", "serviceaccount", "viewer")
    account = f"--serviceaccount={NAMESPACE}:viewer"
    kubectl("create", "clusterrolebinding", "viewer", "--clusterrole=kubenode-viewer", account)
    ours = ("--kubeconfig", cluster.cp.kubeconfig, "--service-account", "viewer")
    with started("dashboard", "--no-browser", *ours) as process:
        assert process.stdout is not None and process.stderr is not None
        address = process.stdout.readline().strip()
        assert address, process.stderr.read()
        page, _, secret = address.partition("#")
        browser = build_opener(HTTPCookieProcessor())
        with browser.open(page, urlencode({"secret": secret}).encode(), timeout=60) as answer:
            assert f"{NAMESPACE}:viewer" in answer.read().decode()
    kubectl("-n", NAMESPACE, "delete", "serviceaccount", "viewer")
    kubectl("delete", "clusterrolebinding", "viewer")


def the_agents_pod_restarts_the_runtime_of_its_host(cluster: PodCluster) -> None:
    cp, host = cluster.cp, cluster.nodes[NODES[0]]
    cluster.apply(POLICY)
    cluster.apply(RESTART)

    def runs() -> bool:
        return host.unit(RUNTIME, "ActiveState") == "active"

    def phase() -> str:
        jobs = cp.get(f"{API}/remedyoperationjobs")["items"]
        return str(jobs[0].get("status", {}).get("phase", "")) if jobs else ""

    with HealthChecker(cp, NODES[0], runs):
        fail(host)
        until(lambda: phase() in CLOSED, "the job is closed", PATIENCE, cluster.why)
    assert (phase(), runs()) == ("Succeeded", True), cluster.why()
    cp.kubectl("delete", "knrm", "runtime-failed")
    cp.kubectl("delete", "knj", "--all")


def a_rule_in_dry_run_stores_its_result(cluster: PodCluster) -> None:
    cp = cluster.cp
    watches = rule(
        "watches",
        "sick",
        {"condition": {"type": "Sick", "status": "True"}},
        rung("cordon", {"cordon": {}}),
        mode="DryRun",
    )
    cluster.apply(watches)
    path = f"{API}/noderemediers/watches"
    until(
        lambda: cp.get(path).get("status", {}).get("phase") == "Active",
        "the rule is loaded",
        PATIENCE,
        cluster.why,
    )
    condition = {"type": "Sick", "status": "True", "reason": "Test", "message": "sick"}
    patch = json.dumps({"status": {"conditions": [condition]}})
    cp.kubectl("patch", "node", NODES[0], "--subresource=status", "-p", patch)

    def results() -> list[dict[str, Any]]:
        records = cp.get(f"{API}/noderecords")["items"]
        return [one for record in records for one in record["spec"].get("dryRuns", ())]

    (result,) = until(results, "the result is stored", PATIENCE, cluster.why)
    assert result["remedier"] == "watches"
    assert result["recent"][0]["said"].startswith("Kube Defender would have")
    assert not cp.get(f"{API}/remedyoperationjobs")["items"]
    assert not cp.get(f"/api/v1/nodes/{NODES[0]}")["spec"].get("unschedulable")


def an_upgrade_to_itself_changes_no_pod(cluster: PodCluster) -> None:
    before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    upgraded = cluster.helm.run("upgrade", *RELEASE, "--reuse-values", limit=400)
    assert upgraded.returncode == 0, upgraded.stderr + cluster.why()
    assert {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()} == before


def everything_is_uninstalled(cluster: PodCluster) -> None:
    """As docs/install.md has it."""
    ours = ("uninstall", "--yes", "--kubeconfig", str(cluster.cp.kubeconfig))
    done = kubenode(*ours, limit=300)
    assert done.returncode == 0, done.stdout + done.stderr
    cluster.helm.done("uninstall", "kubenode", "-n", NAMESPACE, "--wait")
    until(lambda: not cluster.pods(), "the pods are gone", PATIENCE, cluster.why)
    done = kubenode(*ours, limit=300)
    assert done.returncode == 0, done.stdout + done.stderr
