"""A disposable host with the agent as the Pod of the chart's DaemonSet.

The mounts, the namespaces, the command and the environment are those of
charts/kubenode/agent/daemonset.yaml: a change of the manifest changes the Pod of the tests.
tests/hosts/agent_pod.py does what containerd and runc do with them.
"""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ruamel.yaml import YAML
from support.agent_jobs import NODES, node_token
from support.agent_service import AGENT, EVERY_UNIT, AgentHost, binds
from support.control_plane import ControlPlane
from support.host_image import base_image
from support.hosts import Host

REPOSITORY = Path(__file__).parents[2]
MANIFEST = REPOSITORY / "charts" / "kubenode" / "agent" / "daemonset.yaml"
RUNNER = Path(__file__).parents[1] / "hosts" / "agent_pod.py"
SPEC = "/etc/agent-pod.json"
FOLDER = "/var/lib/agent-pod"
SETTINGS, IDENTITY = f"{FOLDER}/settings", f"{FOLDER}/identity"
IMAGE_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONPATH": "/opt/kubenode/src:/opt/kubenode/lib",
    "PYTHONUNBUFFERED": "1",
}
"""What the image gives, and where the tests have the code of its virtual environment."""


def pod_binds() -> dict[Path, str]:
    """What a host needs of this machine to run the Pod."""
    return {**binds(), base_image(): "/opt/pod/image", RUNNER: "/opt/kubenode/agent_pod.py"}


def pod_template() -> dict[str, Any]:
    """The spec of the DaemonSet's Pod."""
    for manifest in YAML(typ="safe").load_all(MANIFEST):
        if manifest["kind"] == "DaemonSet":
            spec: dict[str, Any] = manifest["spec"]["template"]["spec"]
            return spec
    raise AssertionError(f"{MANIFEST} has no DaemonSet")


def pod_spec(node: str, server: str) -> dict[str, Any]:
    """The input of tests/hosts/agent_pod.py."""
    pod = pod_template()
    (agent,) = pod["containers"]
    assert agent["securityContext"]["privileged"], "the runner makes privileged containers alone"
    sources = {volume["name"]: _source(volume) for volume in pod["volumes"]}
    return {
        "command": agent["command"],
        "env": {**IMAGE_ENV, **_environment(agent["env"], node, server)},
        "read_only_root": agent["securityContext"]["readOnlyRootFilesystem"],
        "volumes": [
            {
                **sources[mount["name"]],
                "target": mount["mountPath"],
                "read_only": mount.get("readOnly", False),
                "follows_host": mount.get("mountPropagation") == "HostToContainer",
            }
            for mount in agent["volumeMounts"]
        ],
    }


def _source(volume: dict[str, Any]) -> dict[str, Any]:
    """Where the host has a volume; "" for an empty one."""
    match volume:
        case {"hostPath": path}:
            return {"source": path["path"], "make": path.get("type") == "DirectoryOrCreate"}
        case {"configMap": _}:
            return {"source": SETTINGS, "make": True}
        case {"projected": _}:
            return {"source": IDENTITY, "make": True}
        case {"emptyDir": _}:
            return {"source": "", "make": False}
        case _:
            raise AssertionError(f"a volume of a kind that the runner does not know: {volume}")


def _environment(entries: list[dict[str, Any]], node: str, server: str) -> dict[str, str]:
    at = urlsplit(server)
    known = {"$(KUBERNETES_SERVICE_HOST)": str(at.hostname)}
    known["$(KUBERNETES_SERVICE_PORT)"] = str(at.port)
    environment = {}
    for entry in entries:
        value = node if "valueFrom" in entry else entry["value"]
        for variable, text in known.items():
            value = value.replace(variable, text)
        environment[entry["name"]] = value
    return environment


def pod_command(*program: str) -> list[str]:
    """The command that runs a program in the Pod; without one, the agent."""
    pod = pod_template()
    namespaces = ["--mount", "--propagation=slave"]
    namespaces += [] if pod.get("hostPID") else ["--pid", "--fork", "--kill-child"]
    namespaces += [] if pod.get("hostNetwork") else ["--net"]
    namespaces += [] if pod.get("hostIPC") else ["--ipc"]
    return [
        *("/usr/bin/unshare", *namespaces, "--", "/usr/bin/python3", "-P"),
        *("/opt/kubenode/agent_pod.py", SPEC, *program),
    ]


def write_pod(host: Host, node: str, server: str, settings: str) -> None:
    """Put what kubelet would prepare on the host. settings: the ConfigMap's agent.toml."""
    host.write(SPEC, json.dumps(pod_spec(node, server)))
    host.write(f"{SETTINGS}/agent.toml", settings)
    host.run("mkdir", "-p", IDENTITY)


class AgentPod(AgentHost):
    """The host with the agent's Pod, which a unit with the name of the service runs."""

    config = f"{SETTINGS}/agent.toml"

    def run(self, *argv: str) -> str:
        return self.host.run(*pod_command(*argv)).stdout

    def install(self) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name}}
        self.cp.kubectl("create", "-f", "-", stdin=json.dumps(node))
        assert self.cp.get(f"{NODES}/{self.name}")
        write_pod(self.host, self.name, self.cp.server, EVERY_UNIT)
        token = node_token(self.cp, self.name)
        self.host.write(f"{IDENTITY}/ca.crt", self.cp.ca_file.read_text())
        for name in ("token", "host-doctor-token"):
            self.host.write(f"{IDENTITY}/{name}", token, 0o600)
        program = " ".join(pod_command())
        unit = f"[Service]\nExecStart={program}\nRestart=always\nRestartSec=1\nKillMode=mixed\n"
        self.host.write(f"/etc/systemd/system/{AGENT}", unit)
        self.host.run("systemctl", "daemon-reload")
        self.host.run("systemctl", "start", AGENT)


def install_agent_pod(host: Host, cp: ControlPlane, node: str) -> AgentPod:
    """Start the Pod of `node` on a host that was booted with `pod_binds()`."""
    made = AgentPod(host, cp, node)
    made.install()
    return made
