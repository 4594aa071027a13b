"""A fleet of Nodes as large as real ones, without kubelets: made by one client, kept alive by it.

kwok cannot stand in for 10,000 kubelets on a small machine. These Nodes have what a kubelet and a
node-problem-detector report (14 KB each), and Heartbeats writes the conditions of some of them as
both do: of 10,000 nodes some 70 a second.
"""

import asyncio
import random
import time
from typing import Any

from bench.first_heal import ZONES

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH, Kube
from kubenode.runtime.kube.errors import KubeError

AT_ONCE = 32
HEALTHY = {
    "MemoryPressure": "False",
    "DiskPressure": "False",
    "PIDPressure": "False",
    "Ready": "True",
    "KernelDeadlock": "False",
    "ReadonlyFilesystem": "False",
    "FrequentKubeletRestart": "False",
    "FrequentContainerdRestart": "False",
}
IMAGES = 50
"""As many as a kubelet reports at most."""


def names(count: int) -> list[str]:
    return [f"n{number:05d}" for number in range(count)]


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def conditions(now: str, since: str | None) -> list[dict[str, str]]:
    """What is well; `since` None: the times of change stay as they are."""
    changed = {} if since is None else {"lastTransitionTime": since}
    return [
        {
            "type": kind,
            "status": status,
            "reason": f"{kind}IsWell",
            "message": f"the node has reported {kind} as it should be",
            "lastHeartbeatTime": now,
            **changed,
        }
        for kind, status in HEALTHY.items()
    ]


def node(name: str, number: int, now: str) -> dict[str, Any]:
    images = [
        {
            "names": [
                f"registry.example.com/team-{i % 7}/service-{i}@sha256:{number:08x}{i:056x}",
                f"registry.example.com/team-{i % 7}/service-{i}:v1.{i}.{number % 100}",
            ],
            "sizeBytes": 10_000_000 + i,
        }
        for i in range(IMAGES)
    ]
    capacity = {"cpu": "64", "memory": "263921344Ki", "pods": "110", "ephemeral-storage": "900Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "node.kubernetes.io/instance-type": "m64",
                "topology.kubernetes.io/zone": ZONES[number % len(ZONES)],
                "kubenode.io/pool": f"p{number % 10}",
            },
            "annotations": {"node.example.com/agent": "x" * 400},
        },
        "spec": {"providerID": f"example:///{name}", "podCIDR": f"10.{number % 256}.0.0/24"},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": conditions(now, now),
            "addresses": [{"type": "Hostname", "address": name}],
            "images": images,
            "nodeInfo": {
                "machineID": f"{number:032x}",
                "systemUUID": f"{number:032x}",
                "bootID": f"{number:032x}",
                "kernelVersion": "6.1.0-1-amd64",
                "osImage": "Debian GNU/Linux 12",
                "containerRuntimeVersion": "containerd://1.7.0",
                "kubeletVersion": "v1.36.3",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }


async def make(kube: Kube, count: int) -> None:
    """Create `count` Nodes with their status."""
    gate, now = asyncio.Semaphore(AT_ONCE), _now()

    async def create(name: str, number: int) -> None:
        async with gate:
            await kube.create(paths.nodes(), node(name, number, now), decode=len)

    async with asyncio.TaskGroup() as tasks:
        for number, name in enumerate(names(count)):
            tasks.create_task(create(name, number))


class Heartbeats:
    """`rate` status reports a second of random nodes, each as a kubelet or a detector writes it."""

    def __init__(self, kube: Kube, among: list[str], rate: float) -> None:
        self.written = 0
        self._kube, self._among, self._rate = kube, among, rate
        self._chosen = random.Random(7)

    async def run(self) -> None:
        """Until cancelled; a server that is away costs reports, and ends nothing."""
        began, sent = time.monotonic(), 0
        async with asyncio.TaskGroup() as tasks:
            gate = asyncio.Semaphore(AT_ONCE)
            while True:
                owed = int((time.monotonic() - began) * self._rate) - sent
                for _ in range(owed):
                    await gate.acquire()
                    tasks.create_task(self._one(gate))
                sent += owed
                await asyncio.sleep(0.05)

    async def _one(self, gate: asyncio.Semaphore) -> None:
        body = {"status": {"conditions": conditions(_now(), None)}}
        path = paths.node(self._chosen.choice(self._among), "status")
        try:
            await self._kube.patch(path, body, STRATEGIC_PATCH, decode=len)
            self.written += 1
        except KubeError:
            return
        finally:
            gate.release()
