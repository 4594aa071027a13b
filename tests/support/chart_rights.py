"""The chart's roles and admission policies on a real API server, and requests by their subjects."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from support.command import kubenode
from support.control_plane import ControlPlane
from support.helm import CHART

from kubenode.runtime.kube.client import JSON, JSON_PATCH, MERGE_PATCH, Kube
from kubenode.runtime.kube.errors import Forbidden, KubeError
from kubenode.runtime.kube.official import connect

FILES = (
    "agent/rbac",
    "agent/admission",
    "defender/rbac",
    "defender/admission",
    "remedy/rbac",
    "remedy/admission",
    "remedy/words",
    "machine/rbac",
    "machine/admission",
    "people",
)
"""Roles and policies of the chart, without webhooks and workloads."""
ACCOUNT_GROUPS = ("system:serviceaccounts", "system:serviceaccounts:kubenode-system")
ENFORCED_SECONDS = 60.0
"""The API server reads new policies and roles from its own caches."""


def account(name: str) -> str:
    """User name of a service account of namespace kubenode-system."""
    return f"system:serviceaccount:kubenode-system:{name}"


class ChartRights:
    """The chart's roles and policies are applied until the end of the block."""

    def __init__(self, cp: ControlPlane, files: Sequence[str] = FILES) -> None:
        self.cp = cp
        self._files = [CHART / f"{file}.yaml" for file in files]
        self._users: dict[str, Path] = {}

    def __enter__(self) -> Self:
        installed = kubenode("install", "--kubeconfig", self.cp.kubeconfig)
        assert installed.returncode == 0, installed.stderr
        self.cp.kubectl("apply", *_named(self._files))
        return self

    def __exit__(self, *_: object) -> None:
        self.cp.kubectl("delete", "--ignore-not-found", *_named(self._files))

    def bind(self, user: str, role: str) -> None:
        """Bind a ClusterRole to a user."""
        name = f"{user}-{role}"
        words = ("create", "clusterrolebinding", name, f"--clusterrole={role}", f"--user={user}")
        self.cp.kubectl(*words)

    def unbind(self, user: str, role: str) -> None:
        self.cp.kubectl("delete", "clusterrolebinding", f"{user}-{role}", "--ignore-not-found")

    def client(self, user: str) -> Kube:
        """A client with the user's identity; close it."""
        return Kube(connect(str(self._kubeconfig(user))))

    def send(
        self,
        user: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        dry_run: bool = False,
    ) -> str:
        """Send a request as `user`. Returns the refusal, "" if the API server accepts it.

        A refusal that is no 403 starts with its error class.
        """
        kind = JSON
        if method == "PATCH":
            kind = MERGE_PATCH if isinstance(body, Mapping) else JSON_PATCH
        query = {"dryRun": "All"} if dry_run else None

        async def sent() -> str:
            kube = self.client(user)
            try:
                await kube.call(method, path, query, body=body, content_type=kind)
            except Forbidden as error:
                return str(error) or "forbidden"
            except KubeError as error:
                return f"{type(error).__name__}: {error}"
            finally:
                await kube.close()
            return ""

        return asyncio.run(sent())

    def wait_until_refused(self, user: str, method: str, path: str, body: Any) -> None:
        """Send a request as a dry run until the API server refuses it by a policy."""
        deadline = time.monotonic() + ENFORCED_SECONDS
        while "ValidatingAdmissionPolicy" not in (
            said := self.send(user, method, path, body, dry_run=True)
        ):
            assert time.monotonic() < deadline, said or "still accepted"
            time.sleep(0.2)

    def _kubeconfig(self, user: str) -> Path:
        if user not in self._users:
            groups = ACCOUNT_GROUPS if user.startswith("system:serviceaccount:") else ()
            self._users[user] = self.cp.kubeconfig_for(user, groups)
        return self._users[user]


def _named(files: Sequence[Path]) -> list[str]:
    return [word for file in files for word in ("-f", str(file))]
