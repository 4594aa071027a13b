"""The chart of Kube Defender on a real API server, and Kube Defender as its own process.

The webhook of the chart is called through a Service; here, without pods, by URL on loopback.
"""

import base64
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from ruamel.yaml import YAML
from support import waiting
from support.command import kubenode, started
from support.control_plane import ControlPlane
from support.daemons import free_port
from support.registry_plane import Program, _answers, _until

CHART = Path(__file__).parents[2] / "charts" / "kubenode" / "defender"
SYSTEM = "kubenode-system"
ACCOUNT = f"system:serviceaccount:{SYSTEM}:kubenode-defender"
REMEDY = f"system:serviceaccount:{SYSTEM}:kubenode-remedy"
HOOK = "validatingwebhookconfiguration/kubenode-defender"


class GuardPlane:
    """`port` is where the webhook is asked, `api` where Kube Defender is."""

    def __init__(self, cp: ControlPlane) -> None:
        self.cp = cp
        self.port, self.api = free_port(), free_port()
        self.url = f"https://127.0.0.1:{self.api}"

    def __enter__(self) -> Self:
        done = kubenode("install", "--kubeconfig", self.cp.kubeconfig)
        assert done.returncode == 0, done.stderr
        self.cp.kubectl("apply", "-f", CHART / "rbac.yaml", "-f", CHART / "publishing.yaml")
        self.kubeconfig = self.cp.kubeconfig_for(ACCOUNT)
        self.empty()
        return self

    def __exit__(self, *_: object) -> None:
        self.unhook()
        self.empty()
        self.cp.kubectl("delete", "--ignore-not-found", "-f", CHART / "publishing.yaml")

    def empty(self) -> None:
        for kind in ("nodes", "permits", "defenderpolicies"):
            self.cp.kubectl("delete", kind, "--all")

    # ---- the webhook

    def hook(self, policy: str = "Ignore", port: int | None = None) -> None:
        """Apply webhook.yaml, called by URL, with this failurePolicy."""
        documents = list(YAML(typ="safe").load_all((CHART / "webhook.yaml").read_text()))
        for document in documents:
            for hook in document.get("webhooks", ()):
                path = hook["clientConfig"]["service"]["path"]
                hook["failurePolicy"] = policy
                hook["clientConfig"] = {"url": f"https://127.0.0.1:{port or self.port}{path}"}
        items = {"apiVersion": "v1", "kind": "List", "items": documents}
        self.cp.kubectl("apply", "-f", "-", stdin=json.dumps(items))

    def unhook(self) -> None:
        self.cp.kubectl("delete", HOOK, "--ignore-not-found")
        for kind in ("secret", "service"):
            self.cp.kubectl("delete", kind, "kubenode-defender", "-n", SYSTEM, "--ignore-not-found")

    def authorities(self) -> bytes:
        """Who signs Kube Defender's certificate: what its clients are to trust."""
        found = self.cp.kubectl("get", "secret", "kubenode-defender", "-n", SYSTEM, "-o", "json")
        return base64.b64decode(json.loads(found.stdout)["data"]["ca.crt"])

    # ---- Kube Defender

    @contextmanager
    def defender(self, *flags: str) -> Iterator[Program]:
        """`kubenode run defender` with the chart's rights, until it answers questions."""
        health = free_port()
        with started(
            "run", "defender", "--kubeconfig", self.kubeconfig, "--health-port", str(health),
            "--guard-port", str(self.port), "--listen-port", str(self.api), "--tls",
            "--tls-host", "127.0.0.1", "--log-text", *flags,
        ) as process:  # fmt: skip
            program = Program(process)
            _until(lambda: _answers(health) or process.poll() is not None, 60)
            if process.poll() is not None:
                raise AssertionError(process.communicate()[1])
            yield program
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            program.wait()

    # ---- objects

    def policy(self, *limits: dict[str, Any], **guard: Any) -> None:
        """The only policy. Its breaker never opens: nobody keeps these nodes ready."""
        spec = {
            "nodes": {"all": True},
            "limits": list(limits),
            "guard": guard,
            "smallPool": {"nodes": 0},
            "perNode": {"maxActs": 1000},
            "breaker": {"trip": {"minNodes": 1000}},
        }
        meta = {"name": "default"}
        body = {"apiVersion": "kubenode.io/v1alpha1", "kind": "DefenderPolicy", "metadata": meta}
        self.cp.kubectl("apply", "-f", "-", stdin=json.dumps({**body, "spec": spec}))

    def nodes(self, *names: str) -> None:
        items = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": n}} for n in names]
        listed = {"apiVersion": "v1", "kind": "List", "items": items}
        self.cp.kubectl("create", "-f", "-", stdin=json.dumps(listed))

    def kubectl(self, *args: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
        """As admin, member of system:masters; a refusal is no error here."""
        return self.cp.kubectl(*args, stdin=stdin, check=False)

    def permits(self) -> list[dict[str, Any]]:
        """Also those that were given back."""
        found = json.loads(self.cp.kubectl("get", "permits", "-o", "json").stdout)
        return list(found["items"])

    def open_permits(self) -> list[dict[str, Any]]:
        return [p for p in self.permits() if p.get("status", {}).get("state") != "Released"]

    def events(self, reason: str) -> list[str]:
        selector = f"reason={reason}"
        found = self.cp.kubectl("get", "events", "--field-selector", selector, "-o", "json")
        return [item["message"] for item in json.loads(found.stdout)["items"]]

    def until(self, condition: Any, what: str, seconds: float = 60) -> None:
        waiting.until(condition, what, seconds)
