"""A disposable host with the agent as a systemd service under a certificate of its own."""

import json
from pathlib import Path
from typing import Any

from support.agent_jobs import GROUP, user
from support.control_plane import ControlPlane
from support.host_image import agent_packages
from support.hosts import Host, Hosts

REPOSITORY = Path(__file__).parents[2]
SERVICE = REPOSITORY / "agent" / "systemd" / "kubenode-agent.service"
AGENT = "kubenode-agent.service"
STATE = "/var/lib/kubenode-agent"
PYTHON = Path(__file__).parents[1] / "hosts" / "bin"
"""A link to the host's Python, in the place of the one that packages bring."""
KILLER = Path(__file__).parents[1] / "hosts" / "killed_agent.py"


def binds() -> dict[Path, str]:
    """What the service needs of this machine, where its unit file expects it."""
    return {
        REPOSITORY / "agent": "/opt/kubenode/src/agent",
        REPOSITORY / "kubenode": "/opt/kubenode/src/kubenode",
        agent_packages(): "/opt/kubenode/lib",
        PYTHON: "/opt/kubenode/bin",
        KILLER: "/opt/kubenode/killed_agent.py",
    }


def boot_with_agent(hosts: Hosts, cp: ControlPlane, name: str) -> "AgentHost":
    """A new host whose node and agent are called as the host; the agent runs."""
    return install_agent(hosts.boot(name, bind=binds()), cp, name)


def install_agent(host: Host, cp: ControlPlane, node: str) -> "AgentHost":
    """Start the agent of `node` on a host that was booted with `binds()`."""
    made = AgentHost(host, cp, node)
    made.install()
    return made


EVERY_UNIT = 'repairs = {units = ["*"], stop_units = ["*"]}\n'
"""Tests break and repair units of their own."""


class AgentHost:
    """The host with its agent, and units that can be broken. `config` is the agent's file."""

    config = "/etc/kubenode/agent.toml"

    def __init__(self, host: Host, cp: ControlPlane, node: str) -> None:
        self.host = host
        self.name = node
        self.cp = cp

    def install(self) -> None:
        identity = self.cp.issue_client_cert(user(self.name), [GROUP])
        self.host.write("/etc/kubenode/ca.crt", self.cp.ca_file.read_text())
        self.host.write("/etc/kubenode/agent.crt", identity.cert_file.read_text())
        self.host.write("/etc/kubenode/agent.key", identity.key_file.read_text(), 0o600)
        config = {
            "node": self.name,
            "server": self.cp.server,
            "ca_file": "/etc/kubenode/ca.crt",
            "cert_file": "/etc/kubenode/agent.crt",
            "key_file": "/etc/kubenode/agent.key",
        }
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in config.items()]
        self.host.write(self.config, "".join([*lines, EVERY_UNIT]))
        self.host.write(f"/etc/systemd/system/{AGENT}", SERVICE.read_text())
        self.host.run("systemctl", "daemon-reload")
        self.host.run("systemctl", "enable", "--now", AGENT)

    def run(self, *argv: str) -> str:
        """Run a program where the agent runs, with its packages; return its output."""
        packages = "PYTHONPATH=/opt/kubenode/src:/opt/kubenode/lib"
        return self.host.run("env", packages, *argv).stdout

    def kill_agent_at(self, moment: str) -> None:
        """From its next start on the agent kills itself with SIGKILL, once, at `moment`.

        See tests/hosts/killed_agent.py. "" takes it back. The agent is started again.
        """
        folder = f"/etc/systemd/system/{AGENT}.d"
        drop_in = (
            "[Service]\nExecStart=\nExecStart=/usr/bin/python3 -P /opt/kubenode/killed_agent.py\n"
            f"Environment=KILL_AT={moment}\n"
        )
        self.host.run("rm", "-rf", folder, "/var/lib/kubenode-agent/killed")
        if moment:
            self.host.write(f"{folder}/killed.conf", drop_in)
        self.host.run("systemctl", "daemon-reload")
        self.host.run("systemctl", "restart", AGENT)

    def was_killed(self) -> bool:
        return (self.host.root / "var/lib/kubenode-agent/killed").exists()

    def requests(self, verb: str, job: str) -> list[dict[str, Any]]:
        """What the API server's audit log has of the agent's requests on one job."""
        found = []
        for line in self.cp.audit_log.read_text().splitlines():
            entry = json.loads(line)
            about = entry.get("objectRef", {})
            mine = entry["user"]["username"] == user(self.name)
            done = entry["stage"] == "ResponseComplete" and entry["verb"] == verb
            if mine and done and about.get("name") == job:
                found.append(entry)
        return found


class CountedUnit:
    """A real service that counts its own starts and gives up after some crashes."""

    def __init__(self, host: Host, name: str, *, burst: int = 3) -> None:
        self.host, self.name = host, f"{name}.service"
        self._folder = f"/var/lib/{name}"
        self._burst = burst
        host.run("mkdir", "-p", self._folder)
        host.write(f"/etc/systemd/system/{self.name}", self._text())
        host.run("systemctl", "daemon-reload")
        host.run("systemctl", "start", self.name)

    def _text(self) -> str:
        # While a file `hold` is there a start does not get past its preparation.
        hold = f"while [ -e {self._folder}/hold ]; do sleep 0.05; done"
        return (
            f"[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst={self._burst}\n"
            "[Service]\nRestart=always\nRestartSec=50ms\n"
            f"ExecStartPre=/bin/sh -c 'echo start >> {self._folder}/starts; {hold}'\n"
            "ExecStart=/bin/sleep infinity\n"
        )

    @property
    def starts(self) -> int:
        return self.host.read(f"{self._folder}/starts").count("start")

    @property
    def active(self) -> str:
        return self.host.unit(self.name, "ActiveState")

    def crash_until_it_stays_down(self) -> None:
        """Kill its main process until systemd refuses to start it again."""
        while self.active != "failed":
            pid = self.host.unit(self.name, "MainPID")
            if pid not in ("", "0"):  # kill -9 0 would be ourselves
                self.host.run("kill", "-9", pid, check=False)
        assert self.host.unit(self.name, "Result") in ("start-limit-hit", "signal")

    def hold(self) -> None:
        self.host.write(f"{self._folder}/hold", "")

    def release(self) -> None:
        (self.host.root / self._folder.lstrip("/") / "hold").unlink()
