"""Replicas of one program, each a user of its own in the audit log of their API server.

`tree` is the folder whose code runs: this repository's, or that of an older version.
"""

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from support.control_plane import ControlPlane
from support.daemons import Daemon
from support.documented import ROOT
from support.remedy_cluster import Cluster
from support.running import until

from kubenode.api.v1alpha1 import DefenderPolicy
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.errors import AlreadyExists
from kubenode.runtime.restore import NAME as LINEAGE
from remedy.registry.radius import ACCEPT

NAMESPACE, FAULT = "kubenode-system", "CableLoose"
WRITES = frozenset({"create", "update", "patch", "delete"})
START = "from kubenode.cli import main; main()"


class Replica(Daemon):
    """`kubenode run all` of `tree`, under a Lease of `lease` seconds."""

    def __init__(
        self, user: str, plane: ControlPlane, folder: Path, tree: Path = ROOT, lease: int = 10
    ) -> None:
        config = plane.kubeconfig_for(user, ["system:masters"])
        words = ("run", "all", f"--kubeconfig={config}", f"--namespace={NAMESPACE}")
        settings = (
            f"PYTHONPATH={tree}",
            f"KUBENODE_LEASE_SECONDS={lease}",
            "KUBENODE_AUDIT_FILE=",  # an older version does not know it
        )
        command = ("env", *settings, sys.executable, "-P", "-c", START, *words)
        log = folder / f"{user}.log"
        super().__init__(user, [*command, "--health-port=0"], log)

    def says(self, what: str) -> bool:
        return self.log.exists() and what in self.log.read_text()

    async def said(self, what: str) -> None:
        await until(lambda: self.says(what), 120, f"{self.name} says {what!r}; {self.tail()}")

    @property
    def ended(self) -> int | None:
        return self.process.poll() if self.process is not None else None

    async def kept(self) -> None:
        """Start it again whenever it has ended, as a kubelet does."""
        while True:
            if self.ended is not None:
                self.start()
            await asyncio.sleep(0.5)


@contextmanager
def started(*replicas: Replica) -> Iterator[None]:
    """They run; what of them has not ended is killed at the end of the block."""
    try:
        for replica in replicas:
            replica.start()
        yield
    finally:
        for replica in replicas:
            replica.kill()


def written(plane: ControlPlane, user: str) -> list[tuple[str, str, str]]:
    """When, verb and URI of what `user` changed, in order. Events only tell; a Lease and the record
    of the cluster's data are what replicas speak about."""
    found = []
    for line in plane.audit_log.read_text().splitlines():
        entry: dict[str, Any] = json.loads(line)
        about = entry.get("objectRef") or {}
        mine = entry["stage"] == "ResponseComplete" and entry["user"]["username"] == user
        done = mine and entry["responseStatus"]["code"] < 400
        spoken = about.get("resource") in ("leases", "events") or about.get("name") == LINEAGE
        created = entry["requestURI"].endswith("/configmaps")  # the same record, at first
        if done and entry["verb"] in WRITES and not spoken and not created:
            found.append((entry["requestReceivedTimestamp"], entry["verb"], entry["requestURI"]))
    return sorted(found)


async def wide_open(cluster: Cluster) -> None:
    """A policy that holds nothing back, in a namespace for Leases."""
    with suppress(AlreadyExists):
        await cluster.kube.create(paths.namespaces(), {"metadata": {"name": NAMESPACE}})
    wide = {
        "nodes": {"all": True},
        "limits": [{"scope": "Cluster", "maxConcurrent": "100%"}],
        "smallPool": {"nodes": 0},
        "breaker": {"trip": {"minNodes": 1000, "newFaultsPer10m": "100%"}},
    }
    policy = DefenderPolicy.from_user({"metadata": {"name": "default"}, "spec": wide})
    path = paths.custom("defenderpolicies")
    try:
        await cluster.kube.create(path, policy.to_dict())
    except AlreadyExists:
        await cluster.kube.patch(f"{path}/default", {"spec": policy.to_dict()["spec"]})


async def marking_rule(cluster: Cluster) -> None:
    """Who has the fault is cordoned and labelled until it is gone: nothing for an agent to do."""
    steps = [{"cordon": {}}, {"label": {"key": "kubenode.io/suspect-repair", "value": "yes"}}]
    verify = {"for": "1s", "settle": "0s", "timeout": "20m"}
    await cluster.rule(
        "cable",
        mode="Enforce",
        nodes={"all": True},
        when={"condition": {"type": FAULT, "status": "True"}},
        groupWait="0s",
        startupGrace="0s",
        ladder=[{"name": "mark", "steps": steps, "verify": verify}],
    )
    # Some stories begin before it is loaded, with more faults than a new rule may match.
    accepted = {"metadata": {"annotations": {ACCEPT: "1000"}}}
    await cluster.kube.patch(f"{paths.custom('noderemediers')}/cable", accepted)


async def say_of(cluster: Cluster, nodes: Sequence[str], status: str) -> None:
    for name in nodes:
        await cluster.say(name, FAULT, status)
