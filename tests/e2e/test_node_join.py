"""Bare hosts become Ready Nodes: the import lets the agent in, component sets bring containerd, the
network plugin and the kubelet, and the kubelet joins with the Machine's bootstrap token.

The components are those of docs/examples/node. Only the kubelet's archive is packed here, from the
kubelet that the control plane was built with, and settings that a container needs are added.
"""

import hashlib
import json
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from ruamel.yaml import YAML
from support import waiting
from support.agent_package import packages
from support.command import kubenode
from support.components import CONTROL_PLANE, control_plane_folder, require
from support.control_plane import ControlPlane
from support.host_image import node_packages
from support.hosts import Host, Hosts
from support.kubelet_hosts import CONTAINERD, KubeletHosts
from support.machine_world import MACHINES, install
from support.node_files import IMAGE, kubelet_config
from support.package_site import served
from support.programs import Program
from support.rollout_hosts import POLICY, component, machine_programs
from support.ssh_hosts import USER, SshHosts
from support.workloads import budget, deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "docs" / "examples" / "node"
TOKENS = "/api/v1/namespaces/kube-system/secrets"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
until = partial(waiting.until, seconds=200.0)
SETS = "/apis/kubenode.io/v1alpha1/machinecomponentsets"
BRISK = {"batches": [1], "maxUnavailable": 1, "bakeTime": "1s", "maxAttempts": 1}
OF_A_CONTAINER = ("cgroupDriver", "failCgroupV1", "failSwapOn", "protectKernelDefaults",
                  "oomScoreAdj", "evictionHard", "nodeStatusUpdateFrequency")  # fmt: skip
"""Settings of the tests' kubelets that a host needs which is a container itself."""


@dataclass
class Site:
    cp: ControlPlane
    nodes: KubeletHosts
    ssh: SshHosts
    package: Path
    operator: Program

    def machine(self, name: str) -> dict[str, Any]:
        machine: dict[str, Any] = self.cp.get(f"{MACHINES}/{name}")
        return machine

    def create(self, *objects: dict[str, Any]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.cp.kubectl("create", "-f", "-", stdin=json.dumps(listed))

    def start_import(self, host: Host, block: int) -> CompletedProcess[str]:
        """Import the host as a person does, and return the report of the command."""
        flags = [*self.ssh.flags, "--agent-package", str(self.package), "--timeout", "200s"]
        flags += ["--kubeconfig", str(self.cp.kubeconfig), "-o", "json", "--node", "join"]
        flags += ["--label", "pool=online", "--label", f"pod-block={block}"]
        target = ["--ssh", f"{USER}@{host.address}", "--address", host.address]
        return kubenode("machine", "import", host.name, *target, *flags, limit=700)

    def pods(self, app: str) -> list[dict[str, Any]]:
        items = self.cp.get("/api/v1/namespaces/default/pods")["items"]
        return [pod for pod in items if pod["metadata"].get("labels", {}).get("app") == app]

    def capacity(self, node: str) -> str:
        return str(self.cp.get(f"/api/v1/nodes/{node}")["status"]["capacity"]["pods"])

    def cordoned(self, node: str) -> bool:
        return bool(self.cp.get(f"/api/v1/nodes/{node}")["spec"].get("unschedulable"))

    def kubelet(self, name: str) -> dict[str, Any]:
        """Return what the Machine reports of its kubelet."""
        return component(self.machine(name), "kubelet")

    def changing(self, name: str) -> bool:
        return self.kubelet(name)["state"] in ("Applying", "Verifying")

    def started(self, name: str) -> str:
        """Return the identifier of the kubelet's present start."""
        return self.nodes[name].unit("kubelet.service", "InvocationID")

    def change_kubelets(self, **spec: Any) -> None:
        body = json.dumps({"spec": spec})
        self.cp.kubectl("patch", "machinecomponentset", "kubelet", "--type=merge", "-p", body)

    def why(self) -> str:
        machines = [json.dumps(m.get("status", {})) for m in self.cp.get(MACHINES)["items"]]
        sets = self.cp.get("/apis/kubenode.io/v1alpha1/machinecomponentsets")["items"]
        machines += [json.dumps(s.get("status", {})) for s in sets]
        logs = [
            self.nodes[name].journal(unit)[-3000:]
            for name in self.nodes
            for unit in ("kubelet.service", "kubenode-agent.service")
        ]
        return "\n".join([*machines, *logs, self.operator.log[-3000:]])


@pytest.fixture(scope="module")
def site(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    require(CONTROL_PLANE)
    folder = tmp_path_factory.mktemp("join")
    with ExitStack() as stack:
        cp = stack.enter_context(ControlPlane(address=hosts.gateway))
        install(cp)
        cp.kubectl("apply", "-f", str(REPOSITORY / "charts/kubenode/agent/admission.yaml"))
        cp.kubectl("apply", "-f", str(REPOSITORY / "charts/kubenode/defender/rbac.yaml"))
        operator, defender = machine_programs(cp, folder)
        for program in (defender, operator):
            program.start()
            stack.callback(program.stop)
        nodes = stack.enter_context(KubeletHosts(hosts, cp))
        shelf = folder / "shelf"
        shelf.mkdir()
        url = stack.enter_context(served(shelf, hosts.gateway))
        made = Site(cp, nodes, SshHosts(folder), packages(folder).first, operator)
        made.create(POLICY, *example_objects(shelf, url))
        yield made


def example_objects(shelf: Path, url: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of the examples, with the archive of this machine's kubelet."""
    yaml = YAML(typ="safe", pure=True)
    for file in sorted(EXAMPLES.glob("*.yaml")):
        for made in yaml.load_all(file.read_text()):
            if made["metadata"]["name"].startswith("kubelet-"):
                made["spec"]["source"]["tarball"] |= pack_kubelet(shelf, url)
                made["spec"]["healthDeadline"] = "4m"
            if made["metadata"]["name"].startswith("containerd-"):
                made["spec"]["files"][0]["content"]["inline"] = CONTAINERD.read_text()
            if made["kind"] == "MachineComponentSet":
                made["spec"]["updateStrategy"] = BRISK
            for package in made["spec"].get("source", {}).get("apt", {}).get("packages", ()):
                package["version"] = debian_version(package["name"])
            yield made


def debian_version(package: str) -> str:
    """Return the version of a package that the hosts' apt offers."""
    (file,) = node_packages().glob(f"{package}_*.deb")
    argv = ["dpkg-deb", "--field", str(file), "Version"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def pack_kubelet(shelf: Path, url: str) -> dict[str, str]:
    """Pack the kubelet as the archives of Kubernetes do, and return where it is."""
    archive = shelf / "kubernetes-node-linux-amd64.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(control_plane_folder() / "kubelet", "kubernetes/node/bin/kubelet")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return {"url": f"{url}/{archive.name}", "sha256": digest}


def add_site_settings(host: Host) -> None:
    """Write what a kubelet in a container needs, as a site adds settings of its own."""
    config = kubelet_config("", "/etc/kubenode/ca.crt")
    chosen = {key: config[key] for key in ("apiVersion", "kind", *OF_A_CONTAINER)}
    host.write("/etc/kubernetes/kubelet.d/90-site.conf", json.dumps(chosen))


def pod_on(node: str) -> dict[str, Any]:
    container = {"name": "c", "image": IMAGE, "imagePullPolicy": "Never"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"on-{node}", "namespace": "default"},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        },
    }


def both_ready(site: Site, imports: list[Future[CompletedProcess[str]]]) -> bool:
    """Return whether all Nodes are Ready. Fail at once if an import failed."""
    for done in (each.result() for each in imports if each.done()):
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{site.why()}"
    return len(site.nodes.ready()) == len(imports)


def test_bare_hosts_become_nodes_and_their_kubelets_are_changed(
    site: Site, figures: Callable[..., None]
) -> None:
    """One story, as each part begins where the last one ended."""
    two_bare_hosts_become_nodes_that_run_pods(site, figures)
    a_changed_setting_reaches_one_kubelet_after_the_other(site)
    a_kubelet_that_does_not_start_is_undone_at_the_canary(site, figures)


def two_bare_hosts_become_nodes_that_run_pods(site: Site, figures: Callable[..., None]) -> None:
    hosts = [site.nodes.boot_bare(name) for name in ("bare1", "bare2")]
    for host in hosts:
        site.ssh.open(host)
        add_site_settings(host)
    began = time.monotonic()
    with ThreadPoolExecutor(len(hosts)) as pool:
        imports = [pool.submit(site.start_import, host, i) for i, host in enumerate(hosts)]
        until(lambda: both_ready(site, imports), "both Nodes are Ready", why=site.why)
        seconds = time.monotonic() - began
        for done in (each.result() for each in imports):
            assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{site.why()}"
    figures("two bare hosts", import_to_ready_seconds=seconds)

    for host in hosts:
        machine, node = site.machine(host.name), site.cp.get(f"/api/v1/nodes/{host.name}")
        assert machine["status"]["phase"] == "Running"
        assert machine["status"]["nodeRef"]["uid"] == node["metadata"]["uid"]
        assert node["metadata"]["labels"]["pool"] == "online", "registered with its labels"
        keys = {taint["key"] for taint in node["spec"].get("taints", [])}
        assert "kubenode.io/uninitialized" not in keys, "removed once the Machine is Running"
        missing = host.run("test", "-e", "/etc/kubenode/bootstrap-token", check=False)
        assert missing.returncode == 1, "the import removes the token that has no further use"
        for usage in ("client", "server"):
            host.run("test", "-s", f"/var/lib/kubelet/pki/kubelet-{usage}-current.pem")
        site.create(pod_on(host.name))
    secrets = [s for s in site.cp.get(TOKENS)["items"] if s["type"].startswith("bootstrap")]
    assert secrets == [], "a token is revoked once its Node is known"
    until(lambda: all(map(partial(runs, site), hosts)), "a pod runs on each", why=site.why)


def a_changed_setting_reaches_one_kubelet_after_the_other(site: Site) -> None:
    web = deployment("web", 2)
    site.create(web, budget("web", minAvailable=1))
    until(lambda: serving(site) == 2, "the workload runs", why=site.why)
    until(lambda: rollout(site)["phase"] == "Completed", "the first rollout ends", why=site.why)
    pods = {pod["metadata"]["uid"] for pod in site.pods("web")}
    site.change_kubelets(values={"clusterDNS": "10.96.0.10", "maxPods": "60"})
    most = 0

    def done() -> bool:
        nonlocal most
        behind = [name for name in site.nodes if site.capacity(name) != "60"]
        most = max(most, sum(site.changing(name) for name in site.nodes))
        return not behind and rollout(site)["phase"] == "Completed"

    until(done, "both kubelets have the new setting", why=site.why)
    assert most <= 1, "one host at a time"
    assert {pod["metadata"]["uid"] for pod in site.pods("web")} == pods, "class Restart: no drain"


def a_kubelet_that_does_not_start_is_undone_at_the_canary(
    site: Site, figures: Callable[..., None]
) -> None:
    before = {name: site.started(name) for name in site.nodes}
    broken = site.cp.get("/apis/kubenode.io/v1alpha1/machinecomponents/kubelet-1.36.3")
    broken["metadata"] = {"name": "kubelet-1.36.4"}
    broken["spec"] |= {"version": "1.36.4", "healthDeadline": "20s"}
    unit = broken["spec"]["files"][1]["content"]
    unit["inline"] = unit["inline"].replace("--kubeconfig=", "--no-such-flag --kubeconfig=")
    site.create(broken)
    site.change_kubelets(component="kubelet-1.36.4")
    fewest, unavailable, cordoned, last = 2, 0.0, False, time.monotonic()

    def stopped() -> bool:
        nonlocal fewest, unavailable, cordoned, last
        ready, now = serving(site), time.monotonic()
        fewest, unavailable = min(fewest, ready), unavailable + max(0, 2 - ready) * (now - last)
        cordoned, last = cordoned or any(map(site.cordoned, site.nodes)), now
        return str(rollout(site)["phase"]) == "Paused"

    until(stopped, "the rollout stops by itself", why=site.why)
    assert cordoned, "class Drain: the canary's pods leave first"
    assert fewest >= 1, "the budget of the workload holds during the drain"
    figures("kubelet that does not start", pod_unavailable_seconds=unavailable)
    (canary,) = (n for n in site.nodes if site.kubelet(n)["state"] == "RolledBack")
    (other,) = set(site.nodes) - {canary}
    assert site.started(other) == before[other], "the other host was not touched"
    assert site.kubelet(other)["version"] == site.kubelet(canary)["version"] == "1.36.3"
    until(lambda: len(site.nodes.ready()) == 2, "the canary's Node is Ready", why=site.why)
    until(lambda: not site.cordoned(canary), "the canary takes pods again", why=site.why)
    until(lambda: serving(site) == 2, "the workload is complete", why=site.why)


def rollout(site: Site) -> dict[str, Any]:
    """Return the status of the kubelets' set, once it describes the present spec."""
    set_ = site.cp.get(f"{SETS}/kubelet")
    status: dict[str, Any] = set_.get("status", {})
    current = status.get("observedGeneration") == set_["metadata"]["generation"]
    return status if current else {"phase": ""}


def serving(site: Site) -> int:
    """Return the number of ready pods of the workload."""
    return sum(
        condition["type"] == "Ready" and condition["status"] == "True"
        for pod in site.pods("web")
        for condition in pod["status"].get("conditions", ())
    )


def runs(site: Site, host: Host) -> bool:
    pod = site.cp.get(f"/api/v1/namespaces/default/pods/on-{host.name}")
    return bool(pod["status"]["phase"] == "Running")
