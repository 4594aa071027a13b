"""A fleet of real hosts with packaged agents, real operators as processes, and component sets.

Three components, `wheel` on `gear` on `motor`, are real packages in one folder that every host's
apt reads. The packages themselves name no dependencies: the order is ours to keep.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.agent_package import PackagedHost, agent_package
from support.component_packages import REPOSITORY, deb, index
from support.control_plane import ControlPlane, kubectl_command
from support.daemons import free_port
from support.guard_plane import ACCOUNT as DEFENDER
from support.hosts import Host, Hosts
from support.machine_world import CHARTS, MACHINES, OPERATOR, OPERATOR_GROUPS, a_machine, install
from support.programs import KUBENODE, Program
from support.waiting import until

from kubenode.runtime.kube.paths import custom

PATIENCE = 400.0
"""Seconds: hosts and tests share the cores."""
AT_ONCE = 3
NEEDS: dict[str, Sequence[str]] = {"motor": (), "gear": ("motor",), "wheel": ("gear",)}
OLD, NEW, BAD = "1.0.0", "1.1.0", "1.2.0"
CRASHES = "#!/bin/sh\nexit 1\n"
FRAGILE = "/opt/fragile"
CRASHES_WHERE_FRAGILE = f"#!/bin/sh\n[ ! -e {FRAGILE} ] || exit 1\nexec sleep infinity\n"
"""For a version that is well on the canary, and nowhere else."""
SETS = custom("machinecomponentsets")
POOL = {"pool": "rollout"}
UNHURRIED = ("--node-monitor-grace-period=2h",)
"""For kube-controller-manager: a Node that a test has made Ready stays so, without a kubelet."""
POLICY: dict[str, Any] = {
    "apiVersion": "kubenode.io/v1alpha1",
    "kind": "DefenderPolicy",
    "metadata": {"name": "few-hosts"},
    "spec": {
        "nodes": {"all": True},
        "limits": [{"scope": "Cluster", "maxConcurrent": 100}],
        "perNode": {"maxActs": 1000},
        "smallPool": {"nodes": 0},
        "breaker": {"trip": {"unhealthyRatio": "90%", "newFaultsPer10m": "90%"}},
    },
}
"""So that what is held back is held back by the sets, and not by the policy for large clusters."""


def file_of(name: str) -> str:
    return f"/etc/{name}.d/10.conf"


def text_of(name: str, version: str) -> str:
    return f"{name} {version}\n"


def a_component(name: str, version: str, **spec: Any) -> dict[str, Any]:
    package = {"name": name, "version": f"{version}-1"}
    inline = text_of(name, version)
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "MachineComponent",
        "metadata": {"name": f"{name}-{version}"},
        "spec": {
            "component": name,
            "version": version,
            "dependsOn": [
                {"component": other, "version": ">=1.0.0"} for other in NEEDS.get(name, ())
            ],
            "source": {"type": "apt", "apt": {"packages": [package]}},
            "files": [{"path": file_of(name), "content": {"inline": inline}, "onChange": "None"}],
            "units": [{"name": f"{name}.service"}],
            "disruption": {"install": "Restart", "minor": "Drain"},
            "healthDeadline": "20s" if version == BAD else "2m",
            **spec,
        },
    }


def a_set(name: str, **strategy: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "MachineComponentSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": POOL},
            "component": f"{name}-{OLD}",
            "updateStrategy": strategy,
        },
    }


def repository(folder: Path) -> Path:
    """A folder that apt reads, with all versions of all packages; it is bound into the hosts."""
    made = [deb(folder, name, f"{version}-1") for name in NEEDS for version in (OLD, NEW)]
    made.append(deb(folder, "wheel", f"{BAD}-1", program=CRASHES))
    made.append(deb(folder, "gear", f"{BAD}-1", program=CRASHES_WHERE_FRAGILE))
    shelf = folder / "shelf"
    shelf.mkdir()
    for package in made:
        package.rename(shelf / package.name)
    (shelf / "Packages").write_text(index(sorted(shelf.glob("*.deb"))))
    shelf.chmod(0o755)
    return shelf


class History:
    """Every state of every Machine in the order of the API server, by a watch of kubectl's."""

    def __init__(self, cp: ControlPlane, folder: Path) -> None:
        words = ("get", "machines", "--watch", "--output-watch-events", "-o", "json")
        argv, environment = kubectl_command(cp.kubeconfig, *words, home=cp.folder)
        self._file = folder / "machines.json"
        with self._file.open("w") as output:
            self._process = subprocess.Popen(argv, env=environment, stdout=output)

    def states(self) -> Iterator[dict[str, dict[str, Any]]]:
        """All Machines by name, after each change. The same dict each time."""
        text, decoder, now = self._file.read_text(), json.JSONDecoder(), 0
        all_: dict[str, dict[str, Any]] = {}
        while start := text.find("{", now) + 1:
            try:
                event, now = decoder.raw_decode(text, start - 1)
            except json.JSONDecodeError:
                return  # the end is being written
            machine = event["object"]
            all_[machine["metadata"]["name"]] = machine
            yield all_

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


@dataclass
class Rollouts:
    """An administrator's hands, and eyes on hosts."""

    cp: ControlPlane
    hosts: dict[str, Host]
    operator: Program
    defender: Program
    history: History
    kills: list[str] = field(default_factory=list)

    # -- what is asked for ------------------------------------------------------------------------

    def create(self, *things: dict[str, Any]) -> None:
        for thing in things:
            self.cp.kubectl("create", "-f", "-", stdin=json.dumps(thing))

    def change(self, set_: str, **spec: Any) -> None:
        patch = json.dumps({"spec": spec})
        self.cp.kubectl("patch", "kncs", set_, "--type=merge", "-p", patch)

    def ready(self, node: str, status: str) -> None:
        """As a kubelet, or the lack of one, would show it."""
        conditions = [{"type": "Ready", "status": status, "reason": "Told"}]
        patch = json.dumps({"status": {"conditions": conditions}})
        self.cp.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p", patch)

    def kill_operator(self, when: str) -> None:
        """SIGKILL, and a new process of it."""
        self.operator.kill()
        self.operator.start()
        self.kills.append(when)

    # -- what is there ----------------------------------------------------------------------------

    def machine(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cp.get(f"{MACHINES}/{name}")
        return found

    def machines(self) -> dict[str, dict[str, Any]]:
        return {m["metadata"]["name"]: m for m in self.cp.get(MACHINES)["items"]}

    def set(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cp.get(f"{SETS}/{name}")
        return found

    def condition(self, set_: str, type_: str) -> dict[str, Any]:
        conditions = self.set(set_).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == type_), {})

    def completed(self, set_: str, version: str) -> bool:
        found = self.set(set_)
        status, spec = found.get("status", {}), found["spec"]
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        well = status.get("counts", {}).get("healthy", 0) == len(self.hosts)
        phase = status.get("phase") == "Completed" and spec["component"] == f"{set_}-{version}"
        return bool(seen and well and phase)

    def runs(self, host: str, name: str, version: str) -> bool:
        told = component(self.machine(host), name)
        return (told.get("state"), told.get("version")) == ("Healthy", version)

    def schedulable(self, node: str) -> bool:
        return not self.cp.get(f"/api/v1/nodes/{node}")["spec"].get("unschedulable", False)

    def configured(self, host: str, name: str) -> list[str]:
        """Versions in the order in which the package's own script was run to its end."""
        return self.hosts[host].read(f"/opt/configured-{name}").split()

    def invocation(self, host: str, name: str) -> str:
        """Which start of the service this is."""
        return self.hosts[host].unit(f"{name}.service", "InvocationID")

    # -- waiting ----------------------------------------------------------------------------------

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        return until(holds, what, PATIENCE, self.why, every=0.2)

    def why(self) -> str:
        sets = {s["metadata"]["name"]: s.get("status") for s in self.cp.get(SETS)["items"]}
        told = []
        for name, machine in self.machines().items():
            spec, status = machine["spec"], machine.get("status", {})
            about = [spec.get("components"), spec.get("permit"), status.get("phase")]
            told.append(json.dumps([name, *about, status.get("components")]))
        logs = [program.log[-3000:] for program in (self.operator, self.defender)]
        return "\n".join([json.dumps(sets, indent=1), *told, *logs])


def component(machine: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What the Machine's status says of it."""
    listed = machine.get("status", {}).get("components", [])
    return next((c for c in listed if c["name"] == name), {})


def assigned(machine: Mapping[str, Any], name: str) -> str:
    """The MachineComponent that is in force there, "" for none."""
    listed = machine["spec"].get("components", [])
    in_force = [c for c in listed if c["name"] == name and c.get("desiredState") != "Staged"]
    return str(in_force[0]["component"]) if in_force else ""


@contextmanager
def rollouts(hosts: Hosts, folder: Path, count: int) -> Iterator[Rollouts]:
    """`count` hosts whose agents have joined as Machines of the pool; nothing runs there yet."""
    with ExitStack() as stack:
        plane = ControlPlane(
            address=hosts.gateway, scheduler=False, controller_args=UNHURRIED, audit=False
        )
        cp = stack.enter_context(plane)
        install(cp)
        cp.kubectl("apply", "-f", CHARTS / "agent" / "admission.yaml")
        cp.kubectl("apply", "-f", CHARTS / "defender" / "rbac.yaml")
        cp.kubectl("create", "-f", "-", stdin=json.dumps(POLICY))
        operator, defender = machine_programs(cp, folder)
        for program in (defender, operator):
            program.start()
            stack.callback(program.stop)
        history = History(cp, folder)
        stack.callback(history.stop)
        booted: dict[str, Host] = {}
        shelf = {repository(folder): REPOSITORY}
        for number in range(count):
            host = hosts.boot(f"roll{number}", bind=shelf)
            stack.callback(host.destroy)
            booted[host.name] = host
        made = Rollouts(cp, booted, operator, defender, history)
        package = agent_package(folder)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda host: _join(made, host, package), booted.values()))
        yield made


def machine_programs(cp: ControlPlane, folder: Path, *flags: str) -> tuple[Program, Program]:
    """Return the Machine operator and Kube Defender, with the rights that the chart gives them.

    flags: more of the operator's.
    """
    port = str(free_port())
    common = ("--health-port=0", "--audit-file=", "--no-lease")
    rights = cp.kubeconfig_for(OPERATOR, OPERATOR_GROUPS)
    asks = ("--defender-url", f"http://127.0.0.1:{port}")
    operator = ["run", "machine", *common, *asks, *flags, f"--kubeconfig={rights}"]
    rights = cp.kubeconfig_for(DEFENDER, OPERATOR_GROUPS)
    defender = ["run", "defender", *common, "--listen-port", port, f"--kubeconfig={rights}"]
    return Program("machine", operator, folder), Program("defender", defender, folder)


def _join(made: Rollouts, host: Host, package: Path) -> None:
    """As a person does it without SSH: a Machine, a token, the package, a settings file."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": host.name}}
    machine = a_machine(host.name, addresses=[host.address])
    machine["metadata"]["labels"] = POOL
    made.create(node, machine)
    made.ready(host.name, "True")
    host.write("/etc/apt/sources.list", f"deb [trusted=yes] file://{REPOSITORY} ./\n")
    host.write("/etc/dpkg/dpkg.cfg.d/tests", "force-unsafe-io\n")
    asked = [str(KUBENODE), "machine", "token", host.name, "--kubeconfig", str(made.cp.kubeconfig)]

    def token() -> str:
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout

    made.until(
        lambda: made.machine(host.name).get("status", {}).get("bootstrap", {}).get("tokenID"),
        f"a token for {host.name}",
    )
    PackagedHost(host, made.cp).join(package, made.until(token, f"the token of {host.name}"))
