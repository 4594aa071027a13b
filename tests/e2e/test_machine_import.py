"""Hosts that exist are imported over SSH all the way to Running, and let go again.

The command is run as people run it, on real hosts with the real package, API server and operator.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from ruamel.yaml import YAML
from support import waiting
from support.agent_jobs import Operator, an_agent_job, asked
from support.agent_package import Packages, agent_package, packages
from support.agent_service import EVERY_UNIT, CountedUnit
from support.command import kubenode, started
from support.component_packages import deb, serve
from support.component_rpms import serve_rpms
from support.components import CONTROL_PLANE, require
from support.control_plane import ControlPlane
from support.host_image import dnf_image
from support.hosts import Host, Hosts
from support.machine_world import MACHINES, OPERATOR, OPERATOR_GROUPS, install
from support.package_site import served
from support.programs import Program
from support.ssh_hosts import USER, SshHosts

from kubenode.cli.component_edit import ComponentEdit, edit_entry, plain
from kubenode.cli.component_library import find_entry
from kubenode.runtime.components import wire
from kubenode.runtime.components.hashes import config_hash, revision
from kubenode.runtime.components.render import rendered

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

REPOSITORY = Path(__file__).parents[2]
NODES = "/api/v1/nodes"
PATIENCE = 300.0
"""Seconds: hosts and tests share the cores."""
until = partial(waiting.until, seconds=PATIENCE)
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


@dataclass
class Site:
    cp: ControlPlane
    hosts: Hosts
    ssh: SshHosts
    packages: Packages
    others: Path
    """Folder with the rpm and the tar.gz."""

    @property
    def package(self) -> Path:
        return self.packages.first

    def words(self, *words: str) -> list[str]:
        """Of an import over SSH."""
        flags = [*self.ssh.flags, "--agent-package", str(self.package), "--timeout", "8m"]
        flags += ["--agent-package", str(self.others)]
        return ["machine", "import", *words, *flags, "--kubeconfig", str(self.cp.kubeconfig)]

    def imported(self, *words: str) -> CompletedProcess[str]:
        return kubenode(*self.words(*words), limit=700)

    def exported(self, name: str, *words: str) -> CompletedProcess[str]:
        flags = [*self.ssh.flags, "--kubeconfig", str(self.cp.kubeconfig)]
        return kubenode("machine", "export", name, *words, *flags, limit=700)

    def machine(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cp.get(f"{MACHINES}/{name}")
        return found

    def state(self, name: str, component: str) -> str:
        """Of a component, "" as long as it is not told of."""
        told = self.machine(name).get("status", {}).get("components", [])
        return next((str(one["state"]) for one in told if one["name"] == component), "")

    def agent(self, name: str) -> tuple[str, str, str]:
        """Which component of the agent is assigned, its state once it was told, and what runs."""
        machine = self.machine(name)
        (wanted,) = (c for c in machine["spec"]["components"] if c["name"] == "kubenode-agent")
        told = machine["status"].get("components", [])
        seen = (c for c in told if c["name"] == "kubenode-agent")
        same = (str(c["state"]) for c in seen if c.get("revision") == wanted["revision"])
        runs = str(machine["status"].get("host", {}).get("agent", ""))
        return wanted["component"], next(same, ""), runs

    def until_agent(self, host: Host, *wanted: str) -> None:
        def told() -> object:
            return self.machine(host.name), host.journal("kubenode-agent.service")[-3000:]

        until(lambda: self.agent(host.name) == wanted, f"its agent is {wanted}", why=told)

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
        made = packages(folder)
        others = folder / "others"
        for format_ in ("rpm", "tar"):
            agent_package(others, format_)
        yield Site(cp, hosts, SshHosts(folder), made, others)


@pytest.fixture
def boot(site: Site) -> Iterator[Any]:
    booted: list[Host] = []

    def one(name: str, *, known: bool = True, image: Path | None = None) -> Host:
        host = site.hosts.boot(name, image=image)
        booted.append(host)
        site.ssh.open(host, known=known)
        return host

    yield one
    for host in booted:
        host.destroy()


GROWN = (
    *("/var/lib/dpkg", "/var/lib/apt", "/var/lib/rpm", "/var/lib/dnf"),
    *("/var/lib/systemd", "/etc/apt", "/etc/ld.so.cache"),
)
"""Where the system keeps its own account of packages and services."""


def snapshot(host: Host) -> set[str]:
    """All that an import, its components or its export could leave behind or take along: files
    with kind, mode, owner and content, packages with holds and marks, units with their states.
    """
    pruned = [word for path in GROWN for word in ("-path", path, "-prune", "-o")]
    shown = ("-printf", "%p %y %m %U:%G %l\\n")
    folders = ("/etc", "/opt", "/usr", "/root", "/var/lib", "/var/cache/kubenode-agent")
    tree = host.run("find", *folders, *pruned, *shown, check=False).stdout.splitlines()
    sums = "find /etc /opt /root -xdev -type f ! -path '/etc/ld.so.cache' -exec sha256sum {} +"
    found = {*tree, *host.run("sh", "-c", sums).stdout.splitlines()}
    listed = "dpkg-query -W -f='${Package} ${Version} ${Status}\\n' || rpm --query --all"
    packages = host.run("sh", "-c", listed, check=False).stdout
    marked = host.run("sh", "-c", "apt-mark showauto", check=False).stdout.split()
    units = host.run("systemctl", "list-unit-files", "--no-legend", "--plain").stdout
    running = host.run("systemctl", "list-units", "--no-legend", "--plain", "--state=active",
                       "--type=service").stdout  # fmt: skip
    found |= {f"package {line}" for line in packages.splitlines() if "not-installed" not in line}
    found |= {f"automatic {name}" for name in marked}
    found |= {f"unit {' '.join(line.split()[:2])}" for line in units.splitlines()}
    return found | {f"runs {line.split()[0]}" for line in running.splitlines() if _lasting(line)}


def _lasting(line: str) -> bool:
    return not line.startswith(("user@", "user-runtime-dir@", "session-", "apt-", "systemd-"))


SHOP: dict[str, Any] = {
    "apiVersion": "kubenode.io/v1alpha1",
    "kind": "MachineComponent",
    "metadata": {"name": "shop-2.0"},
    "spec": {
        "component": "shop",
        "version": "2.0",
        "source": {"type": "apt", "apt": {"packages": [{"name": "shop", "version": "2.0-1"}]}},
        "files": [
            {"path": "/etc/shop.d/10.conf", "content": {"inline": "ours\n"}, "onChange": "None"},
            {"path": "/etc/shop.d/20.toml", "ownership": "Keys", "onChange": "None",
             "content": {"inline": "[till]\nopen = true\n"}},
            {"path": "/etc/shop.d/new.conf", "content": {"inline": "ours\n"}, "onChange": "None"},
        ],
        "units": [{"name": "shop.service", "onChange": "None",
                   "dropIns": [{"name": "a.conf", "content": "[Unit]\n"}]}],
        "disruption": {"install": "None", "major": "None", "uninstall": "None"},
    },
}  # fmt: skip
"""No change of it needs a permit. Its package needs another one that was not there before."""


FIRST, NEXT, BAD = "0.1.0", "0.1.1", "0.1.2"


def an_agent(version: str) -> dict[str, Any]:
    """The agent of the component library."""
    entry = edit_entry(find_entry("kubenode-agent"), ComponentEdit(version=version))
    made = plain(entry.component)
    made["spec"]["health"][0]["interval"] = "2s"
    made["spec"]["healthDeadline"] = "5s" if version == BAD else "5m"
    return made


def a_shop_of_before(host: Host, folder: Path, agents: Packages) -> None:
    """An older version runs, with files of the people who had the host before us."""
    packages = [agents.first, agents.next, agents.broken]
    packages += [deb(folder, "shop", "1.0-1"), deb(folder, "till", "1.0-1")]
    packages.append(deb(folder, "shop", "2.0-1", depends="till"))
    serve(host, packages)
    host.write("/etc/dpkg/dpkg.cfg.d/tests", "force-unsafe-io\n")
    host.run("apt-get", "update")
    host.run("apt-get", "install", "-y", "shop=1.0-1")
    host.run("apt-mark", "auto", "shop")
    host.run("mkdir", "-p", "/etc/shop.d")
    host.write("/etc/shop.d/10.conf", "theirs\n", 0o640)
    host.write("/etc/shop.d/20.toml", "# by hand\n[till]\nopen = false\ncash = 7\n")
    host.run("rm", "-f", "/opt/configured-shop")


def assign(site: Site, name: str, *made: dict[str, Any]) -> None:
    """As their sets would write them."""
    entries = []
    for one in made:
        spec = wire.spec_of(one["spec"])
        entry = {
            "name": spec.component,
            "component": one["metadata"]["name"],
            "revision": revision(spec, {}, "Running", {}),
            "configHash": config_hash(rendered(spec, {}, {}, {})),
        }
        entries.append(entry)
    patch = json.dumps({"spec": {"components": entries}})
    site.cp.kubectl("patch", "knm", name, "--type=merge", "-p", patch)


def test_a_host_outside_kubernetes_is_imported_to_running_and_left_as_it_was(
    site: Site, boot: Any, tmp_path: Path
) -> None:
    host = boot("out1")
    a_shop_of_before(host, tmp_path, site.packages)
    unit = CountedUnit(host, "counted")
    before = snapshot(host)
    host.write("/etc/kubenode/agent.toml", EVERY_UNIT)
    done = site.imported("out1", "--ssh", f"{USER}@{host.address}", "--address", host.address,
                         "--node", "none", "--label", "pool=edge", "-o", "json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["result"] == "Running"
    a_unit_is_restarted(site, host, unit)
    machine = site.machine("out1")
    assert machine["metadata"]["labels"] == {"pool": "edge"}
    assert machine["status"]["host"]["os"] == "debian-12"
    assert host.run("test", "-e", "/etc/kubenode/bootstrap-token", check=False).returncode == 1

    site.cp.kubectl("create", "-f", "-", stdin=json.dumps(SHOP))
    assign(site, "out1", SHOP)
    until(
        lambda: site.state("out1", "shop") == "Healthy",
        "shop is Healthy",
        why=lambda: site.machine("out1")["status"],
    )
    assert host.read("/etc/shop.d/10.conf") == "ours\n"
    assert "package till 1.0-1 install ok installed" in snapshot(host)

    the_agent_goes_to_a_new_version_and_back_from_one_that_does_not_come_up(site, host)

    again = site.imported("out1", "--ssh", f"{USER}@{host.address}", "--address", host.address,
                          "--node", "none")  # fmt: skip
    assert again.returncode == 0 and "there already" in again.stderr, again.stderr
    assert site.machine("out1")["metadata"]["uid"] == machine["metadata"]["uid"]

    gone = site.exported("out1", "--ssh", f"{USER}@{host.address}", "--uninstall")
    assert gone.returncode == 0, (gone.stdout, gone.stderr)
    assert "nothing of ours stays" in gone.stdout, gone.stdout
    wants = "/etc/systemd/system/multi-user.target.wants"  # these packages of ours leave their own
    host.run("rm", "-f", "/opt/configured-shop", "/opt/configured-till", f"{wants}/till.service")
    left = snapshot(host)
    assert sorted(left - before) == [] and sorted(before - left) == []
    assert "out1" not in site.names()


def the_agent_goes_to_a_new_version_and_back_from_one_that_does_not_come_up(
    site: Site, host: Host
) -> None:
    """It is a component of itself: two versions lie on the host, and the old one takes back."""
    agents = {version: an_agent(version) for version in (FIRST, NEXT, BAD)}
    for made in agents.values():
        site.cp.kubectl("create", "-f", "-", stdin=json.dumps(made))
    for version in (FIRST, NEXT):
        assign(site, "out1", SHOP, agents[version])
        site.until_agent(host, f"kubenode-agent-{version}", "Healthy", version)

    host.run("systemctl", "set-environment", "KUBENODE_PROVE_SECONDS=2")  # it never comes up
    assign(site, "out1", SHOP, agents[BAD])
    taken_back = ("sh", "-c", "cat /var/lib/kubenode-agent/rejected*")
    until(lambda: BAD in host.run(*taken_back, check=False).stdout, f"{BAD} is taken back")
    host.run("systemctl", "unset-environment", "KUBENODE_PROVE_SECONDS")
    site.until_agent(host, f"kubenode-agent-{BAD}", "RolledBack", NEXT)
    told = next(c for c in site.machine("out1")["status"]["components"] if c["version"] == NEXT)
    assert "proven" in told["message"]
    assert site.state("out1", "shop") == "Healthy"


def hide(host: Host, *programs: str) -> None:
    """Move programs out of the host's PATH."""
    patterns = " ".join(f"/usr/bin/{program}" for program in programs)
    host.run("sh", "-c", f"mkdir -p /opt/hidden && mv {patterns} /opt/hidden/")


def a_host_with_dnf(boot: Any) -> Host:
    """rpm and dnf look after it; a repository on it has what the agent's package requires."""
    host: Host = boot("rpm1", image=dnf_image())
    hide(host, "dpkg*", "apt*")
    provides = ("systemd = 252", "dbus", "bash", "e2fsprogs", "iproute", "kmod", "procps-ng")
    serve_rpms(host, provides=provides)
    return host


def a_host_with_neither(boot: Any) -> Host:
    """No package manager and no Python: the agent brings its own."""
    host: Host = boot("bare1")
    hide(host, "dpkg*", "apt*", "python3*")
    return host


@pytest.mark.parametrize("make_host", [a_host_with_dnf, a_host_with_neither])
def test_host_without_dpkg_is_imported_to_running_repaired_and_left_as_it_was(
    site: Site, boot: Any, make_host: Callable[[Any], Host]
) -> None:
    host = make_host(boot)
    unit = CountedUnit(host, "counted")
    before = snapshot(host)
    host.write("/etc/kubenode/agent.toml", EVERY_UNIT)
    ssh = ("--ssh", f"{USER}@{host.address}")
    done = site.imported(host.name, *ssh, "--address", host.address, "--node", "none")
    assert done.returncode == 0, (done.stdout, done.stderr)
    a_unit_is_restarted(site, host, unit)

    again = site.imported(host.name, *ssh, "--address", host.address, "--node", "none")
    assert again.returncode == 0 and "there already" in again.stderr, again.stderr
    gone = site.exported(host.name, *ssh)
    assert gone.returncode == 0, (gone.stdout, gone.stderr)
    assert "nothing of ours stays" in gone.stdout, gone.stdout
    left = snapshot(host)
    assert sorted(left - before) == [] and sorted(before - left) == []


def a_unit_is_restarted(site: Site, host: Host, unit: CountedUnit) -> None:
    """The agent does one repair."""
    operator, job = Operator(site.cp), f"restart-{host.name}"
    request = asked(host.boot_id(), valid=timedelta(minutes=5))
    operator.make(an_agent_job(job, host.name, unit.name), request)
    answer = operator.wait_answer(job, seconds=PATIENCE)
    assert (answer["state"], unit.starts) == ("Done", 2), answer


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
