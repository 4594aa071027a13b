"""A real API server with a kwok node, and the chart on it: installed, and its programs started."""

import base64
import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.control_plane import ControlPlane
from support.daemons import free_port
from support.helm import NAMESPACE, Object, ident, pod_specs
from support.programs import Program

NODE: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "central"}}
DEFENDER_AUDIENCE = "kubenode-defender"
CERTIFICATE_FILE = "--webhook-cert-file", "--guard-cert-file"
"""Flags of the certificate of a webhook. KEY_FILE of the same place names its key."""
KEY_FILE = "--webhook-key-file", "--guard-key-file"
CORE = "/api/v1/namespaces/kubenode-system"


def monitoring_kinds() -> list[Object]:
    """What the Prometheus Operator would install, as far as the chart is judged by it here."""
    return [_kind("servicemonitors", "ServiceMonitor"), _kind("prometheusrules", "PrometheusRule")]


def _kind(plural: str, kind: str) -> Object:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


def account(cp: ControlPlane, name: str, folder: Path) -> tuple[Path, Path]:
    """A kubeconfig of a service account of the chart, and a file of its token for Kube Defender."""
    create = ("create", "token", name, "-n", NAMESPACE)
    token = cp.kubectl(*create).stdout.strip()
    file, config = folder / f"{name}.token", folder / f"{name}.kubeconfig"
    file.write_text(cp.kubectl(*create, f"--audience={DEFENDER_AUDIENCE}").stdout.strip())
    return write_token_config(cp, token, config), file


def write_token_config(cp: ControlPlane, token: str, path: Path) -> Path:
    """Write a kubeconfig of the user that `token` proves."""
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "x",
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [
                    {
                        "name": "c",
                        "cluster": {
                            "server": cp.server,
                            "certificate-authority": str(cp.ca_file),
                        },
                    }
                ],
                "users": [{"name": "u", "user": {"token": token}}],
            }
        )
    )
    return path


class ChartPrograms:
    """The chart's pods as processes of this host: their flags, but for ports, names and folders.

    command  the `kubenode` that they are, None: forks of this environment's
    """

    def __init__(
        self, cp: ControlPlane, objects: list[Object], folder: Path, command: Path | None = None
    ) -> None:
        self._cp, self._folder, self._command = cp, folder, command
        self._pods = dict(pod_specs(objects))
        self.defender = f"https://localhost:{free_port()}"
        self.authority = folder / "defender-ca.crt"

    def arguments(self, pod: str, own: Mapping[str, str] | None = None) -> list[str]:
        """The flags of kind/namespace/name, with what is true here; `own` are a replica's."""
        (container,) = self._pods[pod]["containers"]
        name = self._pods[pod]["serviceAccountName"]
        config, token = account(self._cp, name, self._folder)
        here = {
            "--listen-port": self.defender.rpartition(":")[2],
            "--tls-host": "localhost",
            "--defender-url": self.defender,
            "--url": self.defender,
            "--defender-token-file": str(token),
            "--token-file": str(token),
            "--defender-ca-file": str(self.authority),
            "--ca-file": str(self.authority),
            "--leader-address": "10.1.0.1",
            # A pod has a /tmp of its own, and no other cluster's file in it.
            "--lineage-file": str(self._folder / f"{name}.lineage.json"),
            **(own or {}),
        }
        mounted = {
            volume["name"]: volume["secret"]["secretName"]
            for volume in self._pods[pod]["volumes"]
            if "secret" in volume
        }
        for word in container["args"]:
            flag, _, path = word.partition("=")
            if flag in (*CERTIFICATE_FILE, *KEY_FILE):
                folder, key = Path(path).parts[-2:]
                file = self._folder / f"{name}-{key}"
                file.write_bytes(base64.b64decode(secret(self._cp, mounted[folder])[key]))
                here[flag] = str(file)
        words = [_here(word, here) for word in container["args"]]
        return [*words, f"--kubeconfig={config}"]

    @contextmanager
    def running(self, pod: str, own: Mapping[str, str] | None = None) -> Iterator[str]:
        """Until the end of the block; the URL of its health server, which may not be ready yet."""
        words = self.arguments(pod, own)
        port = next(word for word in words if word.startswith("--health-port=")).partition("=")[2]
        name = f"{pod.rpartition('/')[2]}-{port}"
        program = Program(name, words, self._folder, self._command)
        program.start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            program.stop()  # as a kubelet does: Leases are given back


def _here(word: str, here: Mapping[str, str]) -> str:
    flag, given, _ = word.partition("=")
    if flag in here:
        return f"{flag}={here[flag]}"
    if given and flag.endswith("-port"):
        return f"{flag}={free_port()}"
    return word


def ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def secret(cp: ControlPlane, name: str) -> Mapping[str, Any]:
    data: Mapping[str, Any] = cp.get(f"{CORE}/secrets/{name}").get("data") or {}
    return data


def only(objects: list[Object], name: str) -> list[Object]:
    """Those whose metadata.name it is."""
    return [one for one in objects if ident(one).rpartition("/")[2] == name]
