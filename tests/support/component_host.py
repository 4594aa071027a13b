"""A disposable host on which the ports of components are driven, sandboxed as the agent is."""

import json
import re
import time
from pathlib import Path
from typing import Any

from support.agent_pod import pod_binds, pod_command, write_pod
from support.agent_service import SERVICE, binds
from support.hosts import Host, Hosts

DRIVER = "component-driver.service"
PROGRAMS = Path(__file__).parents[1] / "hosts"
STATE = "/var/lib/kubenode-agent"
WORDS = ("/opt/kubenode/component_host.py", f"{STATE}/request", f"{STATE}/answer")
PACKAGES = "/opt/kubenode/src:/opt/kubenode/lib:/opt/kubenode"
WAIT_SECONDS = 240.0


class ComponentHost:
    """`in_pod`: the driver runs in the Pod of the DaemonSet, not as confined as the service."""

    def __init__(
        self, hosts: Hosts, name: str, image: Path | None = None, *, in_pod: bool = False
    ) -> None:
        programs = {
            PROGRAMS / "component_host.py": "/opt/kubenode/component_host.py",
            PROGRAMS / "component_contract.py": "/opt/kubenode/hosts/component_contract.py",
        }
        self.host: Host = hosts.boot(
            name, bind={**(pod_binds() if in_pod else binds()), **programs}, image=image
        )
        if in_pod:
            write_pod(self.host, name, "https://127.0.0.1:1", "")
        unit = _in_pod() if in_pod else _sandboxed(SERVICE.read_text())
        self.host.write(f"/etc/systemd/system/{DRIVER}", unit)
        self.host.run("systemctl", "daemon-reload")
        self.host.run("systemctl", "start", DRIVER)

    def begin(self, act: str, form: dict[str, Any] | None = None, **more: Any) -> None:
        self.host.run("rm", "-f", f"{STATE}/answer", f"{STATE}/ready")
        self.host.write(f"{STATE}/request.new", json.dumps({"act": act, "form": form, **more}))
        self.host.run("mv", f"{STATE}/request.new", f"{STATE}/request")

    def end(self) -> Any:
        """What the act answered. An error is raised as AssertionError with its text."""
        wait(lambda: self._there("answer") or self._over(), f"{DRIVER} to answer")
        if not self._there("answer"):
            raise AssertionError(self.host.journal(DRIVER))
        told = json.loads(self.host.read(f"{STATE}/answer"))
        assert "error" not in told, told["error"]
        return told["answer"]

    def __call__(self, act: str, form: dict[str, Any] | None = None, **more: Any) -> Any:
        self.begin(act, form, **more)
        return self.end()

    def wait_ready(self) -> None:
        wait(lambda: self._there("ready"), "the watch to begin")

    def kill(self) -> None:
        """As the agent by SIGKILL, and start it again; what it began goes on."""
        self.host.run("systemctl", "kill", "--signal=KILL", DRIVER)
        wait(self._over, f"{DRIVER} to be dead")
        self.host.run("systemctl", "start", DRIVER)

    def _there(self, name: str) -> bool:
        return (self.host.root / STATE.lstrip("/") / name).exists()

    def _over(self) -> bool:
        return self.host.unit(DRIVER, "ActiveState") in ("inactive", "failed")


def wait(holds: Any, what: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"waited {WAIT_SECONDS:g} s for {what}")
        time.sleep(0.05)


def _in_pod() -> str:
    program = ("env", f"PYTHONPATH={PACKAGES}", "python3", "-P", *WORDS)
    return f"[Service]\nType=exec\nExecStart={' '.join(pod_command(*program))}\n"


def _sandboxed(service: str) -> str:
    """The agent's own unit, with the driver in the place of the agent."""
    program = f"/usr/bin/python3 -P {' '.join(WORDS)}"
    text = re.sub(
        r"^ExecStart=.*$",
        f"ExecStart={program}",
        service,
        flags=re.M,
    )
    text = re.sub(r"^(WatchdogSec|Restart|RestartSec)=.*\n", "", text, flags=re.M)
    text = text.replace("Type=notify", "Type=exec").replace(
        ":/opt/kubenode/lib", ":/opt/kubenode/lib:/opt/kubenode"
    )
    return text
