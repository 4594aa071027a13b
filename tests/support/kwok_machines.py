"""An infrastructure provider of Cluster API, contract v1beta2: kwok simulates its machines.

A machine is a Node that kwok keeps Ready. Its power is a file in the rack, a folder of this host.
The provider `local` runs COMMAND there: a machine that was switched on has a new boot ID, and its
fault is over.
"""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.control_plane import ControlPlane
from support.foreign_kinds import a_kind
from support.helm import Object
from support.remedy_cluster import INFO, condition, established

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH, Kube
from kubenode.runtime.kube.errors import NotFound

INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"
CONTRACT = "v1beta2"
BASE = f"/apis/{INFRASTRUCTURE}/{CONTRACT}/namespaces/default"
PREFIX = "kwok://"
KWOK_ANNOTATION = {"kwok.x-k8s.io/node": "fake"}
FAULT = "CableLoose"
POLL_SECONDS = 0.3
COMMAND = """#!/bin/sh
# COMMAND state|off|on MACHINE REQUEST, as docs/providers.md describes it
cd "$(dirname "$0")" || exit 69
case $1 in
  state) [ -e "$2.off" ] && echo off || echo on ;;
  off) touch "$2.off" ;;
  on) [ ! -e "$2.off" ] || { echo "$3" >> "$2.boots" && rm "$2.off"; } ;;
  *) exit 64 ;;
esac
"""


def install_kinds(plane: ControlPlane) -> None:
    kinds = [_kind(kind) for kind in ("KwokCluster", "KwokMachine", "KwokMachineTemplate")]
    listed = {"apiVersion": "v1", "kind": "List", "items": kinds}
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(listed))
    established(plane, [f"crd/{kind['metadata']['name']}" for kind in kinds])


def an_infrastructure(kind: str, name: str, spec: Object) -> Object:
    return {
        "apiVersion": f"{INFRASTRUCTURE}/{CONTRACT}",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def _kind(kind: str) -> Object:
    found = a_kind(INFRASTRUCTURE, CONTRACT, kind, f"{kind.lower()}s", "Namespaced")
    found["metadata"]["labels"] = {f"cluster.x-k8s.io/{CONTRACT}": CONTRACT}
    found["spec"]["versions"][0]["subresources"] = {"status": {}}
    return found


class KwokMachines:
    """rack: a folder for the power of machines
    boots: number of boots that a machine's Node shows
    """

    def __init__(self, kube: Kube, rack: Path) -> None:
        self._kube, self._rack = kube, rack
        self.boots: dict[str, int] = {}

    async def run(self) -> None:
        while True:
            await self._reconcile()
            await asyncio.sleep(POLL_SECONDS)

    async def _reconcile(self) -> None:
        for cluster in (await self._kube.get(f"{BASE}/kwokclusters"))["items"]:
            if not _is_provisioned(cluster):
                await self._report(cluster)
        for machine in (await self._kube.get(f"{BASE}/kwokmachines"))["items"]:
            if not _is_provisioned(machine) and "deletionTimestamp" not in machine["metadata"]:
                await self._provision(machine)
        for file in self._rack.glob("*.boots"):
            await self._show_boots(file.stem, len(file.read_text().splitlines()))

    async def _provision(self, machine: dict[str, Any]) -> None:
        name = machine["metadata"]["name"]
        await self._kube.create(paths.nodes(), a_node(name))
        path = f"{BASE}/kwokmachines/{name}"
        await self._kube.patch(path, {"spec": {"providerID": f"{PREFIX}{name}"}})
        await self._report(machine, addresses=[{"type": "InternalIP", "address": "10.9.0.1"}])

    async def _report(self, found: dict[str, Any], **status: Any) -> None:
        path = f"{BASE}/{found['kind'].lower()}s/{found['metadata']['name']}/status"
        await self._kube.patch(
            path, {"status": {"initialization": {"provisioned": True}, **status}}
        )

    async def _show_boots(self, node: str, boots: int) -> None:
        if self.boots.get(node) == boots:
            return
        self.boots[node] = boots
        with suppress(NotFound):
            await boot(self._kube, node, boots)


async def boot(kube: Kube, node: str, boots: int) -> None:
    """As the kubelet of a machine after its boot number `boots`, which has ended its fault."""
    healthy = [condition(FAULT, "False", "Booted")]
    status = {"nodeInfo": _info(f"boot-{node}-{boots}"), "conditions": healthy}
    await kube.patch(paths.node(node, "status"), {"status": status}, STRATEGIC_PATCH)


def a_node(name: str) -> Object:
    return {
        "metadata": {"name": name, "annotations": KWOK_ANNOTATION},
        "spec": {"providerID": f"{PREFIX}{name}"},
        "status": {"nodeInfo": _info(f"boot-{name}-0")},
    }


def _info(boot: str) -> Object:
    return {key: "x" for key in INFO} | {"bootID": boot}


def _is_provisioned(found: dict[str, Any]) -> bool:
    initialization = (found.get("status") or {}).get("initialization") or {}
    return bool(initialization.get("provisioned"))


def write_provider(rack: Path) -> Path:
    """Write the command and the file of providers; return the latter."""
    command = rack / "power"
    command.write_text(COMMAND)
    command.chmod(0o755)
    file = rack / "providers.yaml"
    file.write_text(json.dumps([{"type": "local", "prefix": PREFIX, "command": [str(command)]}]))
    return file
