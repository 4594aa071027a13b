"""Kubelets without hosts: pods that are bound run and are ready, those that were told to go, go.

For a real control plane with controller-manager and scheduler, where the pods of controllers have
to move. It also remembers how many ready pods each application had at the least.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from support.remedy_cluster import Cluster, stamp

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH
from kubenode.runtime.kube.errors import Conflict, NotFound

LOOK = 0.1


@dataclass
class Kubelets:
    """of  the namespace whose pods run here"""

    cluster: Cluster
    of: str
    nodes: list[str] = field(default_factory=list)
    least: dict[str, int] = field(default_factory=dict)
    """By the label app: the fewest ready pods since `watch` was called for it."""
    watched: set[str] = field(default_factory=set)

    async def node(self, name: str, *, schedulable: bool = True) -> None:
        await self.cluster.node(name)
        room = {"pods": "110", "cpu": "8", "memory": "16Gi"}
        body = {"status": {"allocatable": room, "capacity": room}}
        await self.cluster.kube.patch(paths.node(name, "status"), body, STRATEGIC_PATCH)
        if not schedulable:
            await self.open(name, False)
        self.nodes.append(name)

    async def open(self, name: str, schedulable: bool) -> None:
        body = {"spec": {"unschedulable": not schedulable}}
        await self.cluster.kube.patch(paths.node(name), body, STRATEGIC_PATCH)

    def watch(self, app: str) -> None:
        self.watched.add(app)

    async def pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.cluster.kube.get(paths.pods(self.of)))["items"]
        return found

    async def run(self) -> None:
        beats = 0
        while True:
            for pod in await self.pods():
                await self._serve(pod)
            self._count(await self.pods())
            beats += 1
            if beats % 100 == 0:
                for node in self.nodes:
                    await self.cluster.say(node, "Ready", "True", "KubeletReady")
            await asyncio.sleep(LOOK)

    async def _serve(self, pod: dict[str, Any]) -> None:
        meta, spec = pod["metadata"], pod["spec"]
        try:
            if "deletionTimestamp" in meta:
                path = paths.pod(self.of, meta["name"])
                await self.cluster.kube.delete(path, uid=meta["uid"], grace_seconds=0)
            elif spec.get("nodeName") and not is_ready(pod):
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp()}
                patch = {"status": {"phase": "Running", "conditions": [ready]}}
                path = paths.pod(self.of, meta["name"], "status")
                await self.cluster.kube.patch(path, patch, STRATEGIC_PATCH)
        except (NotFound, Conflict):
            return

    def _count(self, pods: list[dict[str, Any]]) -> None:
        ready = Counter(
            pod["metadata"].get("labels", {}).get("app", "")
            for pod in pods
            if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
        )
        for app in self.watched:
            self.least[app] = min(self.least.get(app, ready[app]), ready[app])


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    """Ask again until it holds. Raises AssertionError after `seconds`."""
    deadline = asyncio.get_running_loop().time() + seconds
    for _ in count():
        if await holds():
            return
        assert asyncio.get_running_loop().time() < deadline, f"not within {seconds:g} s"
        await asyncio.sleep(LOOK)


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


@asynccontextmanager
async def kubelets(cluster: Cluster, namespace: str) -> AsyncIterator[Kubelets]:
    await cluster.kube.create(paths.namespaces(), {"metadata": {"name": namespace}})
    found = Kubelets(cluster, namespace)
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(found.run())
        try:
            yield found
        finally:
            work.cancel()
