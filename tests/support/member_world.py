"""Captain on one real API server, and member clusters on others."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from support.chart_rights import ACCOUNT_GROUPS, account
from support.command import kubenode
from support.control_plane import ControlPlane
from support.helm import CHART
from support.programs import Program
from support.waiting import until

from kubenode.cli.member_app import MEMBERS_NAMESPACE
from kubenode.runtime.kube import paths

MEMBERS = paths.custom("memberclusters")
SECRETS = paths.resource("/api/v1", "secrets", namespace=MEMBERS_NAMESPACE)
PATIENCE = 120.0


class MemberWorld:
    """Two clusters: `captain`, with the rights of the chart, and `member`, with our kinds."""

    def __init__(self, captain: ControlPlane, member: ControlPlane) -> None:
        self.captain, self.member = captain, member
        for cp in (captain, member):
            installed = kubenode("install", "--kubeconfig", cp.kubeconfig)
            assert installed.returncode == 0, installed.stderr
        captain.kubectl("apply", "-f", CHART / "captain/rbac.yaml")

    def command(self, *words: str | Path) -> CompletedProcess[str]:
        return kubenode("member", *words, "--kubeconfig", self.captain.kubeconfig)

    def import_member(self, name: str, *words: str) -> str:
        access = ("--member-kubeconfig", self.member.kubeconfig)
        done = self.command("import", name, *access, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def running(self, folder: Path, probe_seconds: float) -> Iterator[Program]:
        """`kubenode run captain` with the rights of the chart."""
        rights = self.captain.kubeconfig_for(account("kubenode-captain"), ACCOUNT_GROUPS)
        shared = ("--kubeconfig", str(rights), "--health-port", "0")
        interval = ("--member-probe-seconds", str(probe_seconds))
        program = Program("captain", ("run", "captain", *shared, *interval), folder)
        program.start()
        try:
            yield program
        finally:
            program.stop()

    def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self.captain.get(f"{MEMBERS}/{name}").get("status", {})
        return status

    def reach(self, name: str) -> tuple[str, str]:
        """Reason and message of Reachable."""
        conditions = {c["type"]: c for c in self.status(name).get("conditions", ())}
        condition = conditions.get("Reachable", {})
        return condition.get("reason", ""), condition.get("message", "")

    def wait_for(self, name: str, reason: str, seconds: float = PATIENCE) -> str:
        """Wait until Reachable has this reason, and return its message."""
        until(
            lambda: self.reach(name)[0] == reason,
            f"member {name} is {reason}",
            seconds,
            lambda: self.status(name),
        )
        return self.reach(name)[1]

    def kubeconfig(self, name: str) -> bytes:
        secret = self.captain.get(f"{SECRETS}/{name}")
        return base64.b64decode(secret["data"]["kubeconfig"])

    def store(self, name: str, kubeconfig: bytes, type_: str = "kubenode.io/kubeconfig") -> None:
        """Write a Secret and its MemberCluster as a person would."""
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": MEMBERS_NAMESPACE},
            "type": type_,
            "data": {"kubeconfig": base64.b64encode(kubeconfig).decode()},
        }
        member = {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "MemberCluster",
            "metadata": {"name": name},
            "spec": {"kubeconfigRef": name},
        }
        listed = {"apiVersion": "v1", "kind": "List", "items": [secret, member]}
        self.captain.kubectl(
            "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(listed)
        )

    def clean(self) -> None:
        """Delete all members, also their identity."""
        self.captain.kubectl("delete", "memberclusters", "--all")
        self.captain.kubectl("delete", "secrets", "-n", MEMBERS_NAMESPACE, "--all")
        words = ("delete", "--ignore-not-found", "-n", "kubenode-system")
        self.member.kubectl(*words, "serviceaccount/kubenode-captain-member")
        self.member.kubectl(
            "delete",
            "--ignore-not-found",
            "clusterrole/kubenode-captain-member",
            "clusterrolebinding/kubenode-captain-member",
        )
