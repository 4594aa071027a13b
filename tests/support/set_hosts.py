"""A site where a set's machines are real hosts: a rack boots them, their agents come by user data
from the site's web server, and the operators are processes that can be killed.

Only kubelets are played, by who tells the truth of the hosts.
"""

import hashlib
import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.agent_jobs import JOBS, LEASES, NODES, Caller, stamp
from support.agent_package import agent_package
from support.control_plane import ControlPlane
from support.daemons import free_port
from support.host_rack import HostRack
from support.hosts import Host, Hosts
from support.machine_world import CHARTS, MACHINES, OPERATOR_GROUPS, install
from support.node_cluster import ACCOUNT
from support.package_site import served
from support.programs import Program
from support.rollout_hosts import POLICY, UNHURRIED, History
from support.waiting import until

from kubenode.providers.local.power import PREFIX
from kubenode.runtime.kube.paths import custom

PATIENCE = 300.0
"""Seconds: hosts and tests share the cores."""
CLUSTER = "e2e"
LOOK_SECONDS = 0.2
BEAT = 5
"""Looks from one word of a kubelet to the next, while nothing changes."""
TOKENS = "/api/v1/namespaces/kube-system/secrets?fieldSelector=type=bootstrap.kubernetes.io/token"


@dataclass
class Held:
    """A host of the rack that comes, and goes, when it is let."""

    host: Host
    going: threading.Event

    @property
    def address(self) -> str:
        return self.host.address

    def run(self, *argv: str, timeout: float = 60, stdin: str | None = None) -> Any:
        return self.host.run(*argv, timeout=timeout, stdin=stdin)

    def reboot(self) -> None:
        self.host.reboot()

    def destroy(self) -> None:
        self.going.wait(PATIENCE)
        self.host.destroy()


class Kubelets:
    """One for each host: its Node is Ready under the boot that the host runs, and Unknown when the
    host is not there, as the control plane would find by itself after a while."""

    def __init__(self, cp: ControlPlane, hosts: dict[str, Host], place: str) -> None:
        self._cp, self._hosts, self._place = cp, hosts, place
        self._nodes: dict[str, Caller] = {}
        self._boots: dict[str, tuple[str, str]] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        beat = 0
        while not self._end.wait(LOOK_SECONDS):
            beat += 1
            for name, host in list(self._hosts.items()):
                boot, known = host.boot_id(), self._boots.get(name, ("", ""))[0]
                if boot != known or (boot and beat % BEAT == 0):
                    self._tell(name, boot)

    def _tell(self, name: str, boot: str) -> None:
        if name not in self._nodes:
            self._nodes[name] = node = Caller(self._cp, f"system:node:{name}", ["system:nodes"])
            spec = {"providerID": f"{PREFIX}{self._place}/{name}"}
            node.ask("POST", NODES, {"metadata": {"name": name}, "spec": spec})
        now = stamp()
        if boot != self._boots.get(name, ("", ""))[0]:
            self._boots[name] = boot, now
        told = {"status": "True" if boot else "Unknown", "reason": "Told"}
        times = {"lastHeartbeatTime": now, "lastTransitionTime": self._boots[name][1]}
        status: dict[str, Any] = {"conditions": [{"type": "Ready", **told, **times}]}
        if boot:
            status["nodeInfo"] = {"bootID": boot}
        # A Node that is given up with its host is not found any more.
        kind = "application/strategic-merge-patch+json"
        self._nodes[name].ask("PATCH", f"{NODES}/{name}/status", {"status": status}, kind)


@dataclass
class Pool:
    """coming, going  closed, a host stays pending before its user data is followed, or ending
    made          every client token that a host was ever booted for, by the host's name
    """

    cp: ControlPlane
    rack: HostRack
    booted: dict[str, Host] = field(default_factory=dict)
    made: dict[str, list[str]] = field(default_factory=dict)
    coming: threading.Event = field(default_factory=threading.Event)
    going: threading.Event = field(default_factory=threading.Event)
    kills: list[str] = field(default_factory=list)
    operator: Program = field(init=False)
    defender: Program = field(init=False)
    remedy: Program = field(init=False)
    defender_url: str = field(init=False)
    history: History = field(init=False)

    # -- an administrator's hands -----------------------------------------------------------------

    def create(self, *things: dict[str, Any]) -> None:
        for thing in things:
            self.cp.kubectl("create", "-f", "-", stdin=json.dumps(thing))

    def scale(self, set_: str, replicas: int) -> None:
        self.cp.kubectl("scale", f"machinesets/{set_}", f"--replicas={replicas}")

    def permit(self, node: str) -> str:
        """Name of a permit of Kube Defender to replace `node`, as a job gets it."""
        holder = {"kind": "RemedyOperationJob", "name": "by-hand", "uid": "by-hand"}
        ask = {"operation": "Replace", "class": "Node", "node": node, "holder": holder}
        verdict = self._post("/v1/permits", ask)
        assert verdict["allowed"], verdict
        return str(verdict["permit"])

    def release(self, permit: str) -> None:
        self._post(f"/v1/permits/{permit}/release", {})

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """What Kube Defender answers; {} for nothing."""
        data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(self.defender_url + path, data, headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            text = answer.read()
        found: dict[str, Any] = json.loads(text) if text else {}
        return found

    def kill_operator(self, when: str) -> None:
        """SIGKILL, and a new process of it."""
        self.operator.kill()
        self.operator.start()
        self.kills.append(when)

    # -- what is there ----------------------------------------------------------------------------

    def machines(self) -> dict[str, dict[str, Any]]:
        return {m["metadata"]["name"]: m for m in self.cp.get(MACHINES)["items"]}

    def set_status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cp.get(custom("machinesets", name)).get("status", {})
        return found

    def counts(self, name: str, **wanted: int) -> bool:
        status = self.set_status(name)
        return all(status.get(key, 0) == value for key, value in wanted.items())

    def nodes(self) -> dict[str, dict[str, Any]]:
        return {n["metadata"]["name"]: n for n in self.cp.get(NODES)["items"]}

    def jobs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.cp.get(JOBS)["items"]
        return found

    def rule_phase(self, name: str) -> str:
        found = self.cp.get(custom("noderemediers", name))
        return str(found.get("status", {}).get("phase", ""))

    def leases(self) -> set[str]:
        """Of agents, by their Machines."""
        return {lease["metadata"]["name"] for lease in self.cp.get(LEASES)["items"]}

    def tokens(self) -> list[str]:
        return [secret["metadata"]["name"] for secret in self.cp.get(TOKENS)["items"]]

    def holders(self) -> list[str]:
        """Of permits that are not given back."""
        found = self.cp.get(custom("permits"))["items"]
        held = [permit for permit in found if permit["status"].get("state") != "Released"]
        return [permit["spec"]["holder"]["name"] for permit in held]

    # -- waiting ----------------------------------------------------------------------------------

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        return until(holds, what, PATIENCE, self.why, every=0.2)

    def why(self) -> str:
        rack = [f"{one.name}: {one.state} {one.trouble}" for one in self.rack.made.values()]
        sets = [json.dumps(s.get("status")) for s in self.cp.get(custom("machinesets"))["items"]]
        machines = [json.dumps([n, m["spec"], m.get("status")]) for n, m in self.machines().items()]
        programs = (self.operator, self.defender, self.remedy)
        logs = [f"--- {program.log[-3000:]}" for program in programs]
        return "\n".join([*rack, *sets, *machines, json.dumps(self.jobs()), *logs])


@contextmanager
def pool(hosts: Hosts, folder: Path) -> Iterator[Pool]:
    """The site without machines; Kube Defender and the Machine operator run, the Remedy operator
    waits to be started."""
    with ExitStack() as stack:
        plane = ControlPlane(
            address=hosts.gateway, scheduler=False, controller_args=UNHURRIED, audit=False
        )
        cp = stack.enter_context(plane)
        _install(cp)
        package = agent_package(folder)
        url = stack.enter_context(served(folder, hosts.gateway))
        rack = stack.enter_context(HostRack(hosts.folder, lambda name: _boot(made, hosts, name)))
        made = Pool(cp, rack)
        for gate in (made.coming, made.going):
            gate.set()
            stack.callback(gate.set)
        digest = hashlib.sha256(package.read_bytes()).hexdigest()
        _programs(made, folder, f"{url}/{package.name}#sha256={digest}")
        made.history = History(cp, folder)
        stack.callback(made.history.stop)
        kubelets = Kubelets(cp, made.booted, hosts.session)
        kubelets.start()
        stack.callback(kubelets.stop)
        for program in (made.remedy, made.operator, made.defender):
            stack.callback(program.stop)
        made.defender.start()
        made.operator.start()
        yield made


def _install(cp: ControlPlane) -> None:
    install(cp)
    cp.kubectl("apply", "-f", CHARTS / "agent" / "admission.yaml")
    for part in ("defender", "remedy"):
        cp.kubectl("apply", "-f", CHARTS / part / "rbac.yaml")
    cp.kubectl("create", "-f", "-", stdin=json.dumps(POLICY))


def _boot(made: Pool, hosts: Hosts, name: str) -> Held:
    token = made.rack.made[name].token
    made.made.setdefault(name, []).append(token)
    host = hosts.boot(name)
    host.write("/etc/dpkg/dpkg.cfg.d/tests", "force-unsafe-io\n")
    made.booted[name] = host
    made.coming.wait(PATIENCE)
    return Held(host, made.going)


def _programs(made: Pool, folder: Path, package: str) -> None:
    port = str(free_port())
    providers = folder / "providers.yaml"
    providers.write_text(json.dumps([{"type": "local", "command": made.rack.command}]))
    made.defender_url = f"http://127.0.0.1:{port}"
    asks = ("--defender-url", made.defender_url, "--providers-file", str(providers))
    makes = ("--cluster", CLUSTER, "--join-server", made.cp.server, "--agent-package", package)
    flags: dict[str, tuple[str, ...]] = {
        "defender": ("--listen-port", port),
        "machine": (*asks, *makes),
        "remedy": asks,
    }
    common = ("--health-port=0", "--audit-file=", "--no-lease")
    program = {}
    for name, own in flags.items():
        rights = made.cp.kubeconfig_for(ACCOUNT.format(name), OPERATOR_GROUPS)
        words = ["run", name, *common, *own, f"--kubeconfig={rights}"]
        program[name] = Program(name, words, folder)
    made.operator, made.defender = program["machine"], program["defender"]
    made.remedy = program["remedy"]
