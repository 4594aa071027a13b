"""Bare hosts become Ready Nodes: the import lets the agent in, component sets bring containerd, the
network plugin and the kubelet, and the kubelet joins with the Machine's bootstrap token.

The components are those of the component library. Archives are packed here (support.library_site),
and settings that a container needs are added.
"""

import hashlib
import json
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
from support import waiting
from support.agent_package import packages
from support.command import kubenode
from support.components import (
    CONTROL_PLANE,
    OLDER_KUBELET,
    control_plane_folder,
    older_kubelet_folder,
    require,
)
from support.control_plane import ControlPlane
from support.host_image import newer_containerd
from support.host_rack import HostRack
from support.hosts import Host, Hosts
from support.kubelet_hosts import KubeletHosts
from support.library_site import Archive, LibrarySite, serve_packages
from support.machine_world import MACHINES, install
from support.node_files import IMAGE, kubelet_config
from support.package_site import served
from support.pod_unavailability import PodUnavailability
from support.programs import Program
from support.rollout_hosts import POLICY, component, machine_programs
from support.ssh_hosts import USER, SshHosts
from support.workloads import budget, deployment, stateful_set

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]

REPOSITORY = Path(__file__).parents[2]
TOKENS = "/api/v1/namespaces/kube-system/secrets"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
until = partial(waiting.until, seconds=200.0)
SETS = "/apis/kubenode.io/v1alpha1/machinecomponentsets"
OLD = "1.35.4"
"""Version of the kubelet with which the hosts join."""
REPLICAS = {"web": 2, "store": 2}
IMPORTED = ("bare1", "bare2")
SET = "s"
"""Short: names of its machines are names of hosts, which network links are called after."""
API = {"apiVersion": "kubenode.io/v1alpha1"}
CLASS = {
    **API,
    "kind": "MachineClass",
    "metadata": {"name": "rack"},
    "spec": {"provider": "local", "config": {"image": "debian-12"}},
}
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
    rack: HostRack
    library: LibrarySite
    node: Archive
    version: str
    """Version of the API server, and of the kubelet and kube-proxy in the archive `node`."""

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

    def kubelet_version(self, node: str) -> str:
        """Return the version that the kubelet itself reports."""
        version = self.cp.get(f"/api/v1/nodes/{node}")["status"]["nodeInfo"]["kubeletVersion"]
        return str(version).removeprefix("v")

    def cordoned(self, node: str) -> bool:
        return bool(self.cp.get(f"/api/v1/nodes/{node}")["spec"].get("unschedulable"))

    def kubelet(self, name: str) -> dict[str, Any]:
        """Return what the Machine reports of its kubelet."""
        return component(self.machine(name), "kubelet")

    def disturbed(self, family: str) -> list[str]:
        """Return the nodes that are cordoned, or whose component of this family changes."""
        states = ("Applying", "Verifying", "Undoing")
        changing = {n for n in self.nodes if component(self.machine(n), family)["state"] in states}
        return [name for name in self.nodes if name in changing or self.cordoned(name)]

    def sample(self, watch: PodUnavailability, family: str = "kubelet") -> list[str]:
        """Add a sample, and return the nodes that are disturbed."""
        disturbed = self.disturbed(family)
        ready = {app: self.ready_pods(app) for app in REPLICAS}
        watch.sample(ready, next(iter(disturbed), ""), time.monotonic())
        return disturbed

    def ready_pods(self, app: str) -> int:
        return sum(
            condition["type"] == "Ready" and condition["status"] == "True"
            for pod in self.pods(app)
            for condition in pod["status"].get("conditions", ())
        )

    def serves(self) -> bool:
        return all(self.ready_pods(app) == wanted for app, wanted in REPLICAS.items())

    def containers(self) -> dict[str, tuple[str, int]]:
        """Return identifier and number of restarts of the container of each pod of the load."""
        return {
            pod["metadata"]["name"]: (status["containerID"], status["restartCount"])
            for app in REPLICAS
            for pod in self.pods(app)
            for status in pod["status"]["containerStatuses"]
        }

    def runtime(self, node: str) -> str:
        """Return the version of the container runtime that the kubelet reports."""
        info = self.cp.get(f"/api/v1/nodes/{node}")["status"]["nodeInfo"]
        return str(info["containerRuntimeVersion"])

    def started(self, name: str) -> str:
        """Return the identifier of the kubelet's present start."""
        return self.nodes[name].unit("kubelet.service", "InvocationID")

    def change_set(self, name: str, **spec: Any) -> None:
        body = json.dumps({"spec": spec})
        self.cp.kubectl("patch", "machinecomponentset", name, "--type=merge", "-p", body)

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
    for needed in (CONTROL_PLANE, OLDER_KUBELET):
        require(needed)
    folder = tmp_path_factory.mktemp("join")
    with ExitStack() as stack:
        cp = stack.enter_context(ControlPlane(address=hosts.gateway))
        install(cp)
        cp.kubectl("apply", "-f", str(REPOSITORY / "charts/kubenode/agent/admission.yaml"))
        cp.kubectl("apply", "-f", str(REPOSITORY / "charts/kubenode/defender/rbac.yaml"))
        nodes = stack.enter_context(KubeletHosts(hosts, cp))
        rack = stack.enter_context(HostRack(hosts.folder, partial(boot_bare, nodes)))
        shelf = folder / "shelf"
        shelf.mkdir()
        library = LibrarySite(shelf, stack.enter_context(served(shelf, hosts.gateway)))
        package = packages(shelf).first
        flags = provisioning(folder, cp, rack, library, package)
        operator, defender = machine_programs(cp, folder, *flags)
        for program in (defender, operator):
            program.start()
            stack.callback(program.stop)
        version = str(cp.get("/version")["gitVersion"]).removeprefix("v")
        node = library.pack_node(
            version,
            {
                "kubelet": control_plane_folder() / "kubelet",
                "kube-proxy": control_plane_folder() / "kube-proxy",
            },
        )
        made = Site(cp, nodes, SshHosts(folder), package, operator, rack, library, node, version)
        older = library.pack_node(OLD, {"kubelet": older_kubelet_folder() / "kubelet"})
        made.create(POLICY, *library.runtime(), *library.kubelet(OLD, older))
        yield made


def boot_bare(nodes: KubeletHosts, name: str) -> Host:
    """Boot a host that has neither runtime nor kubelet, and whose apt offers both."""
    host = nodes.boot_bare(name)
    host.write("/etc/dpkg/dpkg.cfg.d/tests", "force-unsafe-io\n")
    serve_packages(host)
    add_site_settings(host)
    return host


def provisioning(
    folder: Path, cp: ControlPlane, rack: HostRack, library: LibrarySite, package: Path
) -> list[str]:
    """Return the flags with which the operator makes hosts in the rack."""
    providers = folder / "providers.yaml"
    providers.write_text(json.dumps([{"type": "local", "command": rack.command}]))
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    agent = f"{library.url}/{package.name}#sha256={digest}"
    flags = ["--providers-file", str(providers), "--cluster", "e2e"]
    return [*flags, "--join-server", cp.server, "--agent-package", agent]


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


def test_bare_hosts_become_nodes_and_their_kubelets_are_upgraded(
    site: Site, figures: Callable[..., None]
) -> None:
    """One story, as each part begins where the last one ended."""
    two_bare_hosts_become_nodes_that_run_pods(site, figures)
    the_other_components_of_the_library_run(site)
    containerd_of_another_minor_version_starts_under_running_pods(site, figures)
    kubelets_of_another_minor_version_arrive_in_batches(site, figures)
    a_kubelet_that_does_not_start_is_undone_at_the_canary(site, figures)
    hosts_of_a_set_join_and_are_given_back(site, figures)


def two_bare_hosts_become_nodes_that_run_pods(site: Site, figures: Callable[..., None]) -> None:
    hosts = [boot_bare(site.nodes, name) for name in IMPORTED]
    for host in hosts:
        site.ssh.open(host)
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
        assert site.kubelet_version(host.name) == OLD
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


def the_other_components_of_the_library_run(site: Site) -> None:
    """Programs that a node has beside its kubelet; the pods of the load start meanwhile."""
    binding = "--clusterrole=system:node-proxier", "--group=system:nodes"
    site.cp.kubectl("create", "clusterrolebinding", "node-proxier", *binding)
    others = site.library.others(site.version, site.node, site.cp.server.removeprefix("https://"))
    site.create(*others)
    for app, load in (("web", deployment("web", 2)), ("store", stateful_set("store", 2))):
        site.create(load, budget(app, minAvailable=1))
    names = [each["metadata"]["name"] for each in others[1::2]]
    until(lambda: all(phase(site, n) == "Completed" for n in names), "all sets", why=site.why)
    until(site.serves, "the workloads run", why=site.why)
    for name in site.nodes:
        listed = site.machine(name)["status"]["components"]
        assert {c["name"] for c in listed if c["state"] == "Healthy"} >= {*names, "kubelet"}


def containerd_of_another_minor_version_starts_under_running_pods(
    site: Site, figures: Callable[..., None]
) -> None:
    """The library drains a node for it. This site chooses Restart, and its pods stay."""
    often = json.dumps({"spec": {"perNode": {"maxActs": 1000}}})  # a node changes more than thrice
    site.cp.kubectl("patch", "defenderpolicy", "default", "--type=merge", "-p", often)
    made, _ = site.library.containerd(newer_containerd())
    version = made["spec"]["version"]
    made["spec"]["disruption"]["minor"] = "Restart"
    before = site.containers()
    assert len(before) == sum(REPLICAS.values())
    site.create(made)
    site.change_set("containerd", component=made["metadata"]["name"])
    watch, began = PodUnavailability(REPLICAS), time.monotonic()

    def complete() -> bool:
        assert len(site.sample(watch, "containerd")) <= 1, "one host at a time"
        newer = all(site.runtime(n).startswith(f"containerd://{version}") for n in site.nodes)
        return newer and phase(site, "containerd") == "Completed"

    until(complete, "both run the newer containerd", why=site.why)
    figures(
        f"containerd to {version}",
        rollout_seconds=time.monotonic() - began,
        pod_unavailable_seconds=sum(watch.lost.values()),
    )
    assert site.containers() == before, "each container runs on, and none was restarted"
    assert watch.fewest == REPLICAS, "no pod was ever not ready"


def kubelets_of_another_minor_version_arrive_in_batches(
    site: Site, figures: Callable[..., None]
) -> None:
    until(lambda: phase(site, "kubelet") == "Completed", "the first rollout ends", why=site.why)
    flags = ["--version", site.version, *site.node.flags]
    words = ["component", "library", "install", "kubelet", *flags]
    done = kubenode(*words, "--kubeconfig", str(site.cp.kubeconfig))
    assert done.returncode == 0, done.stderr
    site.change_set("kubelet", component=f"kubelet-{site.version}")
    watch, most, began = PodUnavailability(REPLICAS), 0, time.monotonic()

    def complete() -> bool:
        nonlocal most
        most = max(most, len(site.sample(watch)))
        old = [name for name in site.nodes if site.kubelet_version(name) != site.version]
        return not old and phase(site, "kubelet") == "Completed"

    until(complete, "both kubelets are upgraded", why=site.why)
    figures(
        f"kubelet {OLD} to {site.version}",
        rollout_seconds=time.monotonic() - began,
        **{f"pod_unavailable_seconds_{name}": lost for name, lost in sorted(watch.lost.items())},
    )
    assert most == 1, "one host at a time"
    assert set(watch.lost) == set(site.nodes), "class Drain: the pods of each node leave first"
    assert min(watch.fewest.values()) >= 1, "the budgets of the workloads hold"
    until(site.serves, "the workloads are complete", why=site.why)
    until(lambda: not any(map(site.cordoned, site.nodes)), "all take pods", why=site.why)


def a_kubelet_that_does_not_start_is_undone_at_the_canary(
    site: Site, figures: Callable[..., None]
) -> None:
    before = {name: site.started(name) for name in site.nodes}
    broken = site.cp.get(f"/apis/kubenode.io/v1alpha1/machinecomponents/kubelet-{site.version}")
    broken["metadata"] = {"name": "kubelet-broken"}
    broken["spec"] |= {"version": f"{site.version}.1", "healthDeadline": "20s"}
    unit = broken["spec"]["files"][1]["content"]
    unit["inline"] = unit["inline"].replace("--kubeconfig=", "--no-such-flag --kubeconfig=")
    site.create(broken)
    site.change_set("kubelet", component="kubelet-broken")
    watch, cordoned = PodUnavailability(REPLICAS), False

    def stopped() -> bool:
        nonlocal cordoned
        site.sample(watch)
        cordoned = cordoned or any(map(site.cordoned, site.nodes))
        return phase(site, "kubelet") == "Paused"

    until(stopped, "the rollout stops by itself", why=site.why)
    assert cordoned, "class Drain: the canary's pods leave first"
    assert min(watch.fewest.values()) >= 1, "the budgets of the workloads hold"
    lost = sum(watch.lost.values())
    figures("kubelet that does not start", pod_unavailable_seconds=lost)
    (canary,) = (n for n in site.nodes if site.kubelet(n)["state"] == "RolledBack")
    assert "unknown flag: --no-such-flag" in site.kubelet(canary)["message"], "the log says why"
    (other,) = set(site.nodes) - {canary}
    assert site.started(other) == before[other], "the other host was not touched"
    for name in (canary, other):
        assert site.kubelet(name)["version"] == site.version
    until(lambda: len(site.nodes.ready()) == 2, "the canary's Node is Ready", why=site.why)
    until(lambda: not site.cordoned(canary), "the canary takes pods again", why=site.why)
    until(site.serves, "the workloads are complete", why=site.why)


def hosts_of_a_set_join_and_are_given_back(site: Site, figures: Callable[..., None]) -> None:
    """The rollout of the kubelet has stopped: new machines get the version before."""
    seconds = {}
    for replicas, change in ((2, "apply"), (4, "scale_out"), (2, "scale_in")):
        began = time.monotonic()
        if change == "apply":
            site.create(CLASS, a_machine_set(replicas))
        else:
            site.cp.kubectl("scale", f"machinesets/{SET}", f"--replicas={replicas}")
        until(partial(settled, site, replicas), f"{change}: {replicas}", seconds=400, why=site.why)
        seconds[f"{change}_to_settled_seconds"] = time.monotonic() - began
    figures("two hosts of a set, four, and two", **seconds)
    for name in members(site):
        assert site.kubelet_version(name) == site.version
    site.cp.kubectl("delete", "machineset", SET, "--wait=false")
    until(partial(settled, site, 0), "all are given back", seconds=400, why=site.why)
    assert {m["metadata"]["name"] for m in site.cp.get(MACHINES)["items"]} == set(IMPORTED)
    nodes = {node["metadata"]["name"] for node in site.cp.get("/api/v1/nodes")["items"]}
    assert nodes == set(IMPORTED)


def a_machine_set(replicas: int) -> dict[str, Any]:
    labels = {"set": SET, "pool": "online", "pod-block": "9"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"classRef": "rack", "node": "Join", "minReady": "1s"},
    }
    selector = {"matchLabels": {"set": SET}}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    return {**API, "kind": "MachineSet", "metadata": {"name": SET}, "spec": spec}


def members(site: Site) -> list[str]:
    """Return the Machines of the set."""
    machines = [m["metadata"] for m in site.cp.get(MACHINES)["items"]]
    return [meta["name"] for meta in machines if meta["name"] not in IMPORTED]


def settled(site: Site, replicas: int) -> bool:
    """Return whether there are as many hosts, Machines that are Running and Ready Nodes."""
    names = set(members(site))
    if len(names) != replicas or set(site.rack.made) != names:
        return False
    running = all(site.machine(name)["status"].get("phase") == "Running" for name in names)
    return running and names <= site.nodes.ready().keys()


def phase(site: Site, name: str) -> str:
    """Return the phase of a set, "" until its status describes the present spec."""
    set_ = site.cp.get(f"{SETS}/{name}")
    status: dict[str, Any] = set_.get("status", {})
    current = status.get("observedGeneration") == set_["metadata"]["generation"]
    return str(status.get("phase", "")) if current else ""


def runs(site: Site, host: Host) -> bool:
    pod = site.cp.get(f"/api/v1/namespaces/default/pods/on-{host.name}")
    return bool(pod["status"]["phase"] == "Running")
