"""Users with roles of the chart, on a real API server, and jobs that they talk to."""

import asyncio
import uuid
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from support.command import kubenode
from support.registry_plane import CHART, RegistryPlane

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import JSON, MERGE_PATCH, Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.official import connect

JOBS = "remedyoperationjobs"
PATH = paths.custom(JOBS)
ROLES = CHART.parent / "people.yaml"


class People:
    """Users with a role each, and jobs to talk to."""

    def __init__(self, plane: RegistryPlane) -> None:
        self.plane, self.cp = plane, plane.cp
        self.mark = uuid.uuid4().hex[:6]
        self.cp.kubectl("apply", "-f", ROLES)
        self.alice = self.user("alice", "kubenode-approver")
        self.olga = self.user("olga", "kubenode-operator")
        self.victor = self.user("victor", "kubenode-viewer")
        self.nobody = self.cp.kubeconfig_for(f"nobody-{self.mark}")
        self._jobs = 0

    def user(self, name: str, role: str) -> Path:
        """Bound for this test alone."""
        self.cp.kubectl("create", "clusterrolebinding", f"{name}-{self.mark}",
                        f"--clusterrole={role}", f"--user={name}-{self.mark}")  # fmt: skip
        return self.cp.kubeconfig_for(f"{name}-{self.mark}")

    def leave(self) -> None:
        bindings = [f"{name}-{self.mark}" for name in ("alice", "olga", "victor")]
        self.cp.kubectl("delete", "clusterrolebinding", *bindings, "--ignore-not-found")
        self.cp.kubectl("delete", "-f", ROLES, "--ignore-not-found")
        self.cp.kubectl("delete", JOBS, "-l", f"people={self.mark}", "--wait=false")

    def job(self, phase: str = "AwaitingApproval", **spec: Any) -> str:
        """One of a node that is not there, in this phase: no operator touches it."""
        self._jobs += 1
        name = f"words-{self.mark}-{self._jobs}"
        body = {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "RemedyOperationJob",
            "metadata": {"name": name, "labels": {"people": self.mark}},
            "spec": {
                "nodeName": f"nowhere-{self.mark}",
                "agent": "nowhere",
                "remedier": {"name": "r", "uid": "u", "generation": 1},
                "trigger": {"firstTrue": "2026-01-01T00:00:00Z"},
                "ladder": [
                    {"name": "a", "steps": [{"cordon": {}}]},
                    {"name": "b", "steps": [{"cordon": {}}]},
                ],
                **spec,
            },
        }
        assert self.send(self.cp.kubeconfig, "POST", PATH, body) == ""
        status = {"status": {"phase": phase}}
        assert self.send(self.cp.kubeconfig, "PATCH", f"{PATH}/{name}/status", status) == ""
        return name

    def send(self, who: Path, method: str, path: str, body: dict[str, Any]) -> str:
        """What the API server refuses it with, "" if it does not."""
        kind = MERGE_PATCH if method == "PATCH" else JSON

        async def sent() -> str:
            kube = Kube(connect(str(who)))
            try:
                await kube.call(method, path, body=body, content_type=kind)
            except KubeError as error:
                return str(error)
            finally:
                await kube.close()
            return ""

        return asyncio.run(sent())

    def read(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cp.get(f"{PATH}/{name}")
        return found

    def words(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.read(name)["spec"].get("approvals", [])
        return found

    def patch(self, who: Path, name: str, body: dict[str, Any]) -> str:
        return self.send(who, "PATCH", f"{PATH}/{name}", body)


def say(*words: str, who: Path) -> "CompletedProcess[str]":
    return kubenode(*words, "--kubeconfig", who)
