"""Hosts that exist are imported over SSH all the way to Running, and let go again.

The command is run as people run it, on real hosts with the real package, API server and operator.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from ruamel.yaml import YAML
from support.command import kubenode, started
from support.components import CONTROL_PLANE, require
from support.control_plane import ControlPlane
from support.hosts import Host, Hosts
from support.machine_world import MACHINES, OPERATOR, OPERATOR_GROUPS, install
from support.package_site import served
from support.programs import Program
from support.ssh_hosts import USER, SshHosts

from agent.deb.build import build

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

REPOSITORY = Path(__file__).parents[2]
NODES = "/api/v1/nodes"
PATIENCE = 300.0
"""Seconds: hosts and tests share the cores."""
UNHURRIED = ("--node-monitor-grace-period=2h",)
"""For kube-controller-manager: a Node that a test has made Ready stays so, without a kubelet."""
STATIC = """apiVersion: v1
kind: Config
users:
- name: default-auth
  user:
    client-certificate-data: c2VjcmV0
    client-key-data: c2VjcmV0
"""


def until(look: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < end, f"not within {PATIENCE:g} s: {what}"
        time.sleep(0.1)
    return found


@dataclass
class Site:
    cp: ControlPlane
    hosts: Hosts
    ssh: SshHosts
    package: Path

    def words(self, *words: str) -> list[str]:
        """Of an import over SSH."""
        flags = [*self.ssh.flags, "--agent-package", str(self.package), "--timeout", "8m"]
        return ["machine", "import", *words, *flags, "--kubeconfig", str(self.cp.kubeconfig)]

    def imported(self, *words: str) -> CompletedProcess[str]:
        return kubenode(*self.words(*words), limit=700)

    def exported(self, name: str, *words: str) -> CompletedProcess[str]:
        flags = [*self.ssh.flags, "--kubeconfig", str(self.cp.kubeconfig)]
        return kubenode("machine", "export", name, *words, *flags, limit=700)

    def machine(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cp.get(f"{MACHINES}/{name}")
        return found

    def names(self) -> set[str]:
        return {machine["metadata"]["name"] for machine in self.cp.get(MACHINES)["items"]}

    def ready_node(self, name: str) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        self.cp.kubectl("create", "-f", "-", stdin=json.dumps(node))
        status = {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}
        patch = json.dumps({"status": status})
        self.cp.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)


def _control_plane(hosts: Hosts) -> ControlPlane:
    return ControlPlane(address=hosts.gateway, scheduler=False, controller_args=UNHURRIED)


@pytest.fixture(scope="module")
def site(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    require(CONTROL_PLANE)
    folder = tmp_path_factory.mktemp("import")
    with ExitStack() as stack:
        cp = stack.enter_context(_control_plane(hosts))
        install(cp)
        cp.kubectl("apply", "-f", str(REPOSITORY / "charts/kubenode/agent/admission.yaml"))
        rights = cp.kubeconfig_for(OPERATOR, OPERATOR_GROUPS)
        flags = ["--health-port=0", f"--kubeconfig={rights}", "--audit-file="]
        operator = Program("machine", ["run", "machine", *flags], folder)
        operator.start()
        stack.callback(operator.stop)
        yield Site(cp, hosts, SshHosts(folder), build(folder))


@pytest.fixture
def boot(site: Site) -> Iterator[Any]:
    booted: list[Host] = []

    def one(name: str, *, known: bool = True) -> Host:
        host = site.hosts.boot(name)
        booted.append(host)
        site.ssh.open(host, known=known)
        return host

    yield one
    for host in booted:
        host.destroy()


def snapshot(host: Host) -> set[str]:
    """Files and folders of the host that an import could leave behind, or take along."""
    listed = host.run("find", "/etc", "/opt", "/usr", "/root", "/var/lib").stdout.splitlines()
    grown = ("/var/lib/dpkg/", "/var/lib/apt/", "/var/lib/systemd/", "/etc/apt/")
    return {path for path in listed if not path.startswith(grown)}


def test_a_host_outside_kubernetes_is_imported_to_running_and_left_as_it_was(
    site: Site, boot: Any
) -> None:
    host = boot("out1")
    before = snapshot(host)
    done = site.imported("out1", "--ssh", f"{USER}@{host.address}", "--address", host.address,
                         "--node", "none", "--label", "pool=edge", "-o", "json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["result"] == "Running"
    machine = site.machine("out1")
    assert machine["metadata"]["labels"] == {"pool": "edge"}
    assert machine["status"]["host"]["os"] == "debian-12"
    assert host.run("test", "-e", "/etc/kubenode/bootstrap-token", check=False).returncode == 1

    again = site.imported("out1", "--ssh", f"{USER}@{host.address}", "--address", host.address,
                          "--node", "none")  # fmt: skip
    assert again.returncode == 0 and "there already" in again.stderr, again.stderr
    assert site.machine("out1")["metadata"]["uid"] == machine["metadata"]["uid"]

    gone = site.exported("out1", "--ssh", f"{USER}@{host.address}")
    assert gone.returncode == 0, gone.stderr
    assert "nothing of ours stays" in gone.stdout
    assert snapshot(host) - before == set() and before - snapshot(host) == set()
    assert host.unit("kubenode-agent.service", "LoadState") == "not-found"
    assert "out1" not in site.names()


def test_many_hosts_of_a_file_are_imported_also_after_a_kill(
    site: Site, boot: Any, tmp_path: Path
) -> None:
    node, outside = boot("many1"), boot("many2")
    site.ready_node("many1")
    file = tmp_path / "hosts.yaml"
    file.write_text(
        "defaults: {labels: {pool: edge}}\n"
        "hosts:\n"
        f"- {{host: {node.address}, name: many1, ssh: {USER}@{node.address}}}\n"
        f"- {{host: {outside.address}, name: many2, ssh: {USER}@{outside.address}, node: None}}\n"
    )
    with started(*site.words("--file", str(file))) as first:
        until(lambda: site.names() & {"many1", "many2"}, "the first Machine is made")
        first.kill()
    before = {name: site.machine(name) for name in site.names() & {"many1", "many2"}}

    done = site.imported("--file", str(file), "-o", "json")
    assert done.returncode == 0, done.stderr
    report = {one["machine"]: one["result"] for one in json.loads(done.stdout)}
    assert report == {"many1": "Running", "many2": "Running"}
    for name, machine in before.items():
        assert site.machine(name)["metadata"]["uid"] == machine["metadata"]["uid"]
    assert site.machine("many1")["status"]["nodeRef"]["name"] == "many1"
    assert site.cp.get(f"{NODES}/many1")["metadata"]["labels"]["pool"] == "edge"

    gone = site.exported("many1", "--ssh", f"{USER}@{node.address}")
    assert gone.returncode == 0, (gone.stdout, gone.stderr)
    kept = site.cp.get(f"{NODES}/many1")["metadata"]
    assert "pool" not in kept.get("labels", {}), "what the Machine put there"
    assert not [key for key in kept.get("annotations", {}) if key.startswith("kubenode.io/")]
    assert site.names() & {"many1", "many2"} == {"many2"}


def test_f26_a_static_kubelet_certificate_is_refused_and_the_host_is_untouched(
    site: Site, boot: Any
) -> None:
    host = boot("static1")
    host.write("/etc/kubernetes/kubelet.conf", STATIC, 0o600)
    before = snapshot(host)
    done = site.imported("static1", "--ssh", f"{USER}@{host.address}", "--address", host.address,
                         "-o", "json")  # fmt: skip
    assert done.returncode == 1
    (report,) = json.loads(done.stdout)
    assert (report["result"], report["step"]) == ("Refused", "preflight")
    assert "embedded in /etc/kubernetes/kubelet.conf" in report["why"]
    assert "c2VjcmV0" not in done.stdout + done.stderr
    assert "static1" not in site.names() and snapshot(host) == before

    stranger = boot("strange1", known=False)
    done = site.imported("strange1", "--ssh", f"{USER}@{stranger.address}", "--address",
                         stranger.address, "--node", "none")  # fmt: skip
    assert done.returncode == 1 and "SSH host key is not the known one" in done.stdout
    site.ssh.know(stranger)


def test_cloud_init_lets_a_host_in_that_fetches_its_agent(site: Site, boot: Any) -> None:
    host = boot("cloud1")
    with served(site.package.parent, site.hosts.gateway) as url:
        digest = hashlib.sha256(site.package.read_bytes()).hexdigest()
        printed = kubenode("machine", "import", "cloud1", "--address", host.address, "--node",
                           "none", "--print-cloud-init", "--agent-sha256", digest, "--agent-url",
                           f"{url}/{site.package.name}", "--kubeconfig",
                           site.cp.kubeconfig)  # fmt: skip
        assert printed.returncode == 0, printed.stderr
        user_data = YAML(typ="safe", pure=True).load(printed.stdout)
        for file in user_data["write_files"]:
            path, mode = file["path"], file["permissions"]  # /run is not on the host's disk
            put = f"mkdir -p $(dirname {path}); cat > {path}; chmod {mode} {path}"
            host.run("sh", "-c", put, stdin=file["content"])
        for argv in user_data["runcmd"]:
            host.run(*argv, timeout=PATIENCE)
    until(lambda: site.machine("cloud1")["status"].get("phase") == "Running", "it is Running")
    assert host.run("test", "-e", "/run/kubenode-join", check=False).returncode == 1
    again = kubenode("machine", "import", "cloud1", "--address", host.address, "--node", "none",
                     "--print-cloud-init", "--kubeconfig", site.cp.kubeconfig)  # fmt: skip
    assert again.returncode == 1 and "kubenode machine reissue cloud1" in again.stderr
