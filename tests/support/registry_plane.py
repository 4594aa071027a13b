"""The chart of the remedy operator on a real API server, and the operator as its own process.

The webhook of the chart is called through a Service; here, without pods, by URL on loopback.
"""

import base64
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

from ruamel.yaml import YAML
from support.command import kubenode, started
from support.command_process import CommandProcess
from support.control_plane import ControlPlane
from support.daemons import free_port

CHART = Path(__file__).parents[2] / "charts" / "kubenode" / "remedy"
ACCOUNT = "system:serviceaccount:kubenode-system:kubenode-remedy"
ROLES = ("-f", CHART / "rbac.yaml", "-f", CHART / "publishing.yaml")
HOOK = "validatingwebhookconfiguration/kubenode-remedy"
SIGNS = "mutatingwebhookconfiguration/kubenode-remedy"
PATH = "/validate/noderemediers"


@dataclass
class Program:
    """A running `kubenode run remedy`; `log` is what it has said when it is over."""

    process: CommandProcess
    log: str = ""

    def kill(self) -> None:
        self.process.kill()

    def wait(self) -> None:
        if self.process.stdin is None and self.process.stderr is not None:
            self.log += self.process.communicate(timeout=30)[1]


class RegistryPlane:
    """The operator's roles are applied until the end of the block; `port` is the webhook's."""

    def __init__(self, cp: ControlPlane) -> None:
        self.cp = cp
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}{PATH}"

    def __enter__(self) -> Self:
        done = kubenode("install", "--kubeconfig", self.cp.kubeconfig)
        assert done.returncode == 0, done.stderr
        self.unhook()  # another file may have left an authority that lives for years
        self.cp.kubectl("apply", *ROLES)
        self.kubeconfig = self.cp.kubeconfig_for(ACCOUNT)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.unhook()
        self.cp.kubectl("delete", "--ignore-not-found", *ROLES)

    # ---- the webhook

    def hook(self, policy: str = "Ignore", port: int | None = None) -> None:
        """Apply webhook.yaml, called by URL; `policy` is the failurePolicy for rules."""
        documents = list(YAML(typ="safe").load_all((CHART / "webhook.yaml").read_text()))
        for document in documents:
            for hook in document.get("webhooks", ()):
                if document["kind"].startswith("Validating"):
                    hook["failurePolicy"] = policy
                path = hook["clientConfig"]["service"]["path"]
                hook["clientConfig"] = {"url": f"https://127.0.0.1:{port or self.port}{path}"}
        items = {"apiVersion": "v1", "kind": "List", "items": documents}
        self.cp.kubectl("apply", "-f", "-", stdin=json.dumps(items))

    def unhook(self) -> None:
        self.cp.kubectl("delete", HOOK, SIGNS, "--ignore-not-found")
        self.cp.kubectl("delete", "secret", "kubenode-remedy-webhook", "-n", "kubenode-system",
                        "--ignore-not-found")  # fmt: skip

    def bundle(self) -> bytes:
        found = self.cp.kubectl("get", HOOK, "-o", "json")
        [hook] = json.loads(found.stdout)["webhooks"]
        return base64.b64decode(hook["clientConfig"].get("caBundle", ""))

    # ---- the operator

    @contextmanager
    def operator(self, *flags: str) -> Iterator[Program]:
        """`kubenode run remedy` with the chart's rights, until its rules are loaded."""
        health = free_port()
        with started(
            "run", "remedy", "--kubeconfig", self.kubeconfig, "--health-port", str(health),
            "--webhook-port", str(self.port), "--webhook-host", "127.0.0.1", "--log-text",
            "--no-lease",  # nobody starts it again where a busy machine lets it lose a lease
            *flags,
        ) as process:  # fmt: skip
            program = Program(process)
            _until(lambda: _answers(health) or process.poll() is not None, 60)
            if process.poll() is not None:
                raise AssertionError(process.communicate()[1])
            yield program
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            program.wait()

    # ---- rules

    def apply(self, rule: dict[str, Any], *flags: str) -> "subprocess.CompletedProcess[str]":
        return self.cp.kubectl("apply", "-f", "-", *flags, stdin=json.dumps(rule), check=False)

    def rule(self, name: str) -> dict[str, Any]:
        found = self.cp.kubectl("get", "noderemedier", name, "-o", "json")
        answer: dict[str, Any] = json.loads(found.stdout)
        return answer

    def until_status(self, name: str, **wanted: Any) -> dict[str, Any]:
        """The status once it has these values; AssertionError after 40 s."""
        deadline = time.monotonic() + 40
        while True:
            status = self.rule(name).get("status", {})
            if all(status.get(key) == value for key, value in wanted.items()):
                return dict(status)
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} is not {wanted}: {status}")
            time.sleep(0.1)


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _until(condition: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s")
        time.sleep(0.05)
