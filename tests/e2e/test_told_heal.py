"""Faults that somebody tells of, healed on a real host, with nothing imitated that can run: an
alert by Prometheus over node_exporter and Alertmanager, and a line of the kernel by the agent's own
detector without any of them. kwok plays the kubelet.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.agent_jobs import JOBS, install
from support.agent_service import AGENT, binds, install_agent
from support.alerting import Alertmanager, answers
from support.components import CONTROL_PLANE, HOSTS, require
from support.control_plane import ControlPlane
from support.daemons import free_port
from support.hosts import Host, Hosts
from support.kmsg import Kmsg
from support.programs import Program
from support.prometheus import Prometheus
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

NODE = "told"
EXPORTER = Path("/usr/bin/prometheus-node-exporter")
TOKEN = "0123456789abcdef0123456789abcdef"
EVENTS = "/apis/kubenode.io/v1alpha1/hostevents"
RULES = "/apis/kubenode.io/v1alpha1/noderemediers"
WEB = "[Service]\nExecStart=/bin/sleep infinity\n"
LINK_DOWN = "bond0: (slave eth1): link status definitely down, disabling slave"
LINK_UP = "bond0: (slave eth1): link status definitely up, 10000 Mbps full duplex"
BOND = "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo repaired >> /var/lib/bond'\n"
ALERTS = {
    "groups": [
        {
            "name": "nodes",
            "rules": [
                {
                    "alert": "NodeSystemdServiceFailed",
                    "expr": 'node_systemd_unit_state{state="failed"} == 1',
                    "for": "1s",
                    "labels": {"severity": "warning"},
                    "annotations": {"description": "Unit {{ $labels.name }} has failed."},
                },
                {"alert": "Watchdog", "expr": "vector(1)"},
            ],
        }
    ]
}


def a_rule(name: str, when: dict[str, Any], unit: str) -> dict[str, Any]:
    steps = [
        {"collect": {"bundle": ["units", "dmesg"], "timeout": "1m"}},
        {"agent": {"action": "RestartUnit", "unit": unit}},
    ]
    verify = {"for": "2s", "settle": "0s", "timeout": "2m"}
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "NodeRemedier",
        "metadata": {"name": name},
        "spec": {
            "mode": "Enforce",
            "severity": "Warning",
            "faultClass": "systemd_unit_failed",
            "nodes": {"all": True},
            "when": when,
            "groupWait": "0s",
            "startupGrace": "0s",
            "ladder": [{"name": "restart", "steps": steps, "verify": verify}],
        },
    }


ALERT = {"alert": {"name": "NodeSystemdServiceFailed", "labels": {"name": "web.service"}}}
RULE_OF_ALERT = a_rule("web-failed", ALERT, "web.service")
CONDITION = {"condition": {"type": "BondDegraded", "status": "True", "for": "1s"}}
RULE_OF_LINE = a_rule("bond-degraded-here", CONDITION, "bond.service")


class World:
    def __init__(self, cp: ControlPlane, host: Host, kernel: Kmsg, folder: Path) -> None:
        self.cp, self.host, self.kernel, self.folder = cp, host, kernel, folder
        self.programs: list[Program] = []

    def jobs(self, rule: str) -> list[dict[str, Any]]:
        items = self.cp.get(JOBS)["items"]
        return [job for job in items if job["spec"]["remedier"]["name"] == rule]

    def condition(self, type_: str) -> str:
        node = self.cp.get(f"/api/v1/nodes/{NODE}")
        found = {c["type"]: c["status"] for c in node["status"].get("conditions", ())}
        return str(found.get(type_, ""))

    def events(self) -> list[dict[str, Any]]:
        return [e for e in self.cp.get(EVENTS)["items"] if e["spec"]["node"].get("name") == NODE]

    def until(self, look: Callable[[], Any], what: str, seconds: float = 90) -> Any:
        return until(look, what, seconds, self.why)

    def why(self) -> str:
        told = [self.cp.get(JOBS)["items"], self.cp.get(EVENTS)["items"]]
        logs = [f"--- {program.log[-3000:]}" for program in self.programs]
        agent = self.host.run("journalctl", "-u", AGENT, "-n", "40", "--no-pager", check=False)
        return "\n".join([json.dumps(told, indent=1), *logs, agent.stdout])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    for needed in (HOSTS, CONTROL_PLANE, "prometheus", "prometheus-alertmanager"):
        require(needed)
    require("prometheus-node-exporter")
    folder = tmp_path_factory.mktemp("told")
    kernel = Kmsg(folder / "kmsg")
    with ExitStack() as stack:
        stack.callback(kernel.close)
        hosts = stack.enter_context(Hosts())
        plane = ControlPlane(
            address=hosts.gateway,
            kwok=True,
            kwok_annotation="kwok.x-k8s.io/node=fake",
            kwok_args=["--node-lease-duration-seconds=40"],
        )
        cp = stack.enter_context(plane)
        install(cp)
        host = hosts.boot(
            NODE,
            bind={**binds(), EXPORTER: "/opt/node_exporter"},
            args=["--capability=CAP_SYSLOG", f"--bind={kernel.path}:/dev/kmsg"],
        )
        made = World(cp, host, kernel, folder)
        _nodes(cp, host)
        port = free_port(hosts.gateway)
        _agent(made, f"https://{hosts.gateway}:{port}")
        _operators(stack, made, hosts.gateway, port)
        _monitoring(stack, made, f"https://{hosts.gateway}:{port}/v1/alertmanager")
        yield made


def _nodes(cp: ControlPlane, host: Host) -> None:
    for name, address in ((NODE, host.address), ("k1", "10.99.0.1"), ("k2", "10.99.0.2")):
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {
                "addresses": [
                    {"type": "InternalIP", "address": address},
                    {"type": "Hostname", "address": name},
                ],
                "nodeInfo": {"bootID": host.boot_id() if name == NODE else ""},
            },
        }
        cp.kubectl("create", "-f", "-", stdin=json.dumps(node))
    cp.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=60s")


def _agent(world: World, operator: str) -> None:
    host = world.host
    host.write("/etc/systemd/system/web.service", WEB)
    host.write("/etc/systemd/system/bond.service", BOND)
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "start", "web.service")
    install_agent(host, world.cp, NODE)
    more = f'operator = "{operator}"\n[detectors.logs]\nkernel = "journal"\n'
    host.write("/etc/kubenode/agent.toml", host.read("/etc/kubenode/agent.toml") + more)
    host.run("systemctl", "restart", AGENT)
    exporter = ("/opt/node_exporter", "--web.listen-address=:9100", "--collector.disable-defaults")
    host.run(
        *("systemd-run", "--unit=node_exporter", *exporter, "--collector.systemd"),
        "--collector.systemd.unit-include=web.service",
    )
    world.until(lambda: answers(f"http://{host.address}:9100/"), "node_exporter answers")


def _operators(stack: ExitStack, world: World, address: str, port: int) -> None:
    cp, folder = world.cp, world.folder
    (folder / "token").write_text(TOKEN)
    mine = cp.issue_server_cert("host-doctor", [address])
    kubeconfig = str(cp.kubeconfig_for("kubenode:remedy", ["system:masters"]))
    common = ["--kubeconfig", kubeconfig, "--health-port", "0", "--namespace", "default"]
    asks = str(free_port())
    flags = {
        "defender-url": f"http://127.0.0.1:{asks}",
        "host-doctor-port": port,
        "host-doctor-address": address,
        "host-doctor-token-files": folder / "token",
        "host-doctor-cert-file": mine.cert_file,
        "host-doctor-key-file": mine.key_file,
        "host-doctor-client-ca-file": cp.ca_file,
        "bundles": folder / "bundles",
    }
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    world.programs = [
        Program("defender", ["run", "defender", *common, "--listen-port", asks], folder),
        Program("remedy", ["run", "remedy", *common, *words], folder),
    ]
    for rule in (RULE_OF_ALERT, RULE_OF_LINE):
        cp.kubectl("apply", "-f", "-", stdin=json.dumps(rule))
    for program in world.programs:
        program.start()
        stack.callback(program.stop)

    def active() -> bool:
        phases = [rule.get("status", {}).get("phase") for rule in cp.get(RULES)["items"]]
        return phases == ["Active", "Active"]

    world.until(active, "both rules are loaded")


def _monitoring(stack: ExitStack, world: World, url: str) -> None:
    folder = world.folder
    (folder / "alerts.yml").write_text(json.dumps(ALERTS))
    authority = world.cp.ca_file
    alertmanager = stack.enter_context(Alertmanager(folder, url, folder / "token", authority))
    targets, tell = [f"{world.host.address}:9100"], [f"127.0.0.1:{alertmanager.port}"]
    stack.enter_context(Prometheus(folder, targets, [folder / "alerts.yml"], tell))


def closed(world: World, rule: str) -> dict[str, Any]:
    """The one job of the rule, once it has ended; it ended well."""

    def over() -> list[dict[str, Any]]:
        ended = ("Succeeded", "Failed", "Cancelled", "NeedsHuman")
        return [j for j in world.jobs(rule) if j.get("status", {}).get("phase") in ended]

    (job,) = world.until(over, f"a job of {rule} is closed", 150)
    assert job["status"]["phase"] == "Succeeded", world.why()
    return dict(job)


def test_an_alert_of_a_real_prometheus_is_healed_and_resolves(world: World) -> None:
    pid = world.host.unit("web.service", "MainPID")
    world.host.run("kill", "-KILL", pid)
    job = closed(world, "web-failed")
    assert world.host.unit("web.service", "ActiveState") == "active"
    facts = [fact["atom"] for fact in job["spec"]["trigger"]["facts"]]
    assert any("NodeSystemdServiceFailed" in atom for atom in facts), facts
    (event,) = [e for e in world.events() if e["spec"]["class"] == "Alert"]
    assert event["spec"]["attributes"]["instance"] == f"{world.host.address}:9100"
    assert event["status"]["phase"] == "Completed"
    collected = next(s for s in job["status"]["steps"] if s["name"] == "collect")
    uid = job["metadata"]["uid"]
    kept = list((world.folder / "bundles" / NODE).glob(f"{uid}.*.tar.gz"))
    assert collected["state"] == "Done" and len(kept) == 1, (collected, kept)


def test_a_line_of_the_kernel_is_healed_without_any_monitoring(world: World) -> None:
    world.until(lambda: world.condition("BondDegraded") == "False", "the detector has looked")
    world.kernel.write(LINK_DOWN)
    world.until(lambda: world.condition("BondDegraded") == "True", "the line is a condition")
    world.until((world.host.root / "var/lib/bond").exists, "the repair has run")
    world.kernel.write(LINK_UP)  # what the kernel says of a link that was repaired
    closed(world, "bond-degraded-here")
    assert world.condition("BondDegraded") == "False"
    assert world.host.read("/var/lib/bond").count("repaired") == 1
