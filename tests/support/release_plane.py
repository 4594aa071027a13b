"""Captain on one real API server that is a member too, and two more members."""

import json
import time
import urllib.error
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from support.chart_rights import ACCOUNT_GROUPS, account
from support.command import kubenode
from support.control_plane import ControlPlane
from support.helm import CHART
from support.programs import Program
from support.waiting import until

from kubenode.api.v1alpha1 import KINDS
from kubenode.runtime.kube import paths

PLURALS = {kind.__name__: kind.resource.plural for kind in KINDS}
STAGES = ("test", "staging", "production")
READY_CONDITIONS = {
    "MachineComponent": ("Valid", "True"),
    "MachineComponentSet": ("Progressing", "False"),
}
"""Type and status of the condition that a healthy object has."""
PATIENCE = 150.0
Raw = dict[str, Any]


def serves_our_kinds(cp: ControlPlane) -> bool:
    """A kind that is new is served by nobody for a moment: 429 or 404."""
    try:
        for plural in PLURALS.values():
            cp.get(paths.custom(plural))
    except urllib.error.HTTPError as error:
        if error.code not in (HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS):
            raise
        return False
    return True


class ReleasePlane:
    """A member for each of STAGES; Captain runs beside the first one.

    The members' operators do not run: `report` writes the statuses of their objects.
    """

    def __init__(self, clusters: Sequence[ControlPlane], folder: Path) -> None:
        self.members = dict(zip(STAGES, clusters, strict=True))
        self.captain, self._folder = clusters[0], folder
        for cp in clusters:
            installed = kubenode("install", "--kubeconfig", cp.kubeconfig)
            assert installed.returncode == 0, installed.stderr
            until(partial(serves_our_kinds, cp), "our kinds are served", PATIENCE)
        for name in ("rbac", "admission"):
            self.captain.kubectl("apply", "-f", CHART / "captain" / f"{name}.yaml")
        for name, cp in self.members.items():
            words = ("member", "import", name, "--label", f"stage={name}")
            self.run(*words, "--member-kubeconfig", str(cp.kubeconfig))

    def run(self, *words: str, kubeconfig: Path | None = None, fails: bool = False) -> str:
        """Run `kubenode` on Captain's cluster and return what it prints."""
        done = kubenode(*words, "--kubeconfig", kubeconfig or self.captain.kubeconfig)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    @contextmanager
    def running(self) -> Iterator[Program]:
        """`kubenode run captain` with the rights of the chart."""
        rights = self.captain.kubeconfig_for(account("kubenode-captain"), ACCOUNT_GROUPS)
        shared = ("--kubeconfig", str(rights), "--health-port", "0", "--no-lease")
        program = Program("captain", ("run", "captain", *shared), self._folder)
        program.start()
        try:
            yield program
        finally:
            program.stop()

    def revive(self, stage: str) -> None:
        """Start the killed API server of a member."""
        self.members[stage].restart("kube-apiserver")
        until(partial(serves_our_kinds, self.members[stage]), "our kinds are served", PATIENCE)

    def list_events(self, name: str) -> set[str]:
        """Return the reasons of the Events about a release."""
        events = self.captain.get("/api/v1/namespaces/default/events")["items"]
        return {each["reason"] for each in events if each["involvedObject"]["name"] == name}

    def take_finalizers(self) -> None:
        """Let the releases be deleted where Captain does not run."""
        for release in self.captain.get(paths.custom("releases"))["items"]:
            patch = json.dumps({"metadata": {"finalizers": None}})
            words = ("patch", "releases", release["metadata"]["name"], "--type=merge", "-p", patch)
            self.captain.kubectl(*words)

    def read(self, stage: str, kind: str, name: str) -> Raw | None:
        items = self.members[stage].get(paths.custom(PLURALS[kind]))["items"]
        return next((item for item in items if item["metadata"]["name"] == name), None)

    def put(self, stage: str, obj: Raw) -> None:
        """Create or change an object as a person does."""
        self.members[stage].kubectl("apply", "-f", "-", stdin=json.dumps(obj))

    def report(self, stage: str, kind: str, name: str) -> None:
        """Write the status of a healthy object that its operator would, if it has not yet."""
        obj = self.read(stage, kind, name)
        if obj is None:
            return
        generation = obj["metadata"]["generation"]
        if obj.get("status", {}).get("observedGeneration") == generation:
            return
        type_, ready = READY_CONDITIONS[kind]
        condition = {
            "type": type_,
            "status": ready,
            "reason": "Completed",
            "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        body = {"status": {"observedGeneration": generation, "conditions": [condition]}}
        words = ("patch", PLURALS[kind], name, "--subresource=status", "--type=merge")
        self.members[stage].kubectl(*words, "-p", json.dumps(body))

    def status(self, name: str) -> Raw:
        status: Raw = self.captain.get(paths.custom("releases", name)).get("status", {})
        return status

    def wait_for(
        self, name: str, reached: Callable[[Raw], bool], act: Callable[[], object] = lambda: None
    ) -> Raw:
        """Wait until the status is as wanted, with an act of the members' operators in between."""

        def look() -> bool:
            act()
            return reached(self.status(name))

        until(look, f"release {name}", PATIENCE, lambda: json.dumps(self.status(name), indent=1))
        return self.status(name)
