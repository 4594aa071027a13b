"""The controllers of NodeSets, killed at each of their writes, heard or not, end the same."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.disruption_guard import GrantedDisruptions
from support.fate import FatedKube, Once
from support.machine_world import MACHINES, until

from kubenode.api.crd import definition
from kubenode.api.v1alpha1 import KINDS
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.process import serve
from machine.ground import SharedCaches
from machine.machineset.ownership import index
from machine.names import NODE_CLASS
from machine.nodesets.controller import NodeClasses, NodeSets
from machine.nodesets.nodes import NodeMachines
from machine.nodesets.step import FINALIZER
from simulation.apiserver import EmbeddedApiServer

pytestmark = pytest.mark.integration

WRITES = re.compile(r"/(machines|machinesets|machineclasses|nodesets|nodeclasses|nodes)(/|$)")
T = "2026-01-01T00:00:00Z"
SECONDS = 120.0


class MortalKube(FatedKube):
    """A client whose writes of these kinds go through `fate`."""

    writes = WRITES

    def describe_act(self, method: str, path: str, body: Any) -> str:
        return f"{method} {path} {_describe(body)}"


def _describe(body: Any) -> str:
    """Return what is written, without versions and times."""
    if not isinstance(body, dict):
        return ""
    status = body.get("status") or {}
    conditions = [(c["type"], c["reason"]) for c in status.get("conditions", ())]
    finalizers = (body.get("metadata") or {}).get("finalizers")
    return f"{finalizers} {body.get('spec')} {conditions}"


@asynccontextmanager
async def living(url: str, fate: Once, granted: GrantedDisruptions) -> AsyncIterator[None]:
    """Run the controllers until the end of the block."""
    kube = MortalKube(PlainTransport(url))
    kube.fate = fate
    ground = SharedCaches(
        kube, AlwaysLeader(), SystemClock(), CollectorRegistry(), permit_reader=granted
    )
    index(ground.machines)  # as the MachineSets of the same operator do
    nodes = NodeMachines(ground, granted)
    parts = [NodeClasses(ground).controller, NodeSets(ground).controller, nodes.controller]
    try:
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(serve(parts, [*ground.informers]))
            yield
            fate.buried.set()
            work.cancel()
    finally:
        await kube.close()


class NodeSetWorld:
    """One NodeClass, NodeSet and Node, and what stands for the other controllers."""

    def __init__(self, kube: Kube, url: str, after: bool) -> None:
        self.kube, self.url = kube, url
        self.fate, self.granted = Once(after), GrantedDisruptions()

    async def create(self, kind: str, plural: str, name: str, spec: dict[str, Any]) -> None:
        body = {"apiVersion": "kubenode.io/v1alpha1", "kind": kind, "spec": spec}
        await self.kube.create(paths.custom(plural), {**body, "metadata": {"name": name}})

    async def read(self, path: str) -> dict[str, Any] | None:
        try:
            return await self.kube.get(path)
        except NotFound:
            return None

    async def report(self) -> None:
        """Report the MachineSet and MachineClass as their controllers would."""
        for plural, name, types in (
            ("machineclasses", "small", ("Ready",)),
            ("machinesets", "web", ("Scaled", "Healthy")),
        ):
            converted = await self.read(paths.custom(plural, name))
            if converted is None:
                continue
            generation = converted["metadata"]["generation"]
            condition = {"status": "True", "reason": "Test", "lastTransitionTime": T}
            condition["observedGeneration"] = generation
            status = {"observedGeneration": generation}
            status["conditions"] = [{"type": type_, **condition} for type_ in types]
            if (converted.get("status") or {}).get("observedGeneration") != generation:
                path = paths.custom(plural, name, "status")
                await self.kube.patch(path, {"status": status})

    async def conditions(self, plural: str, name: str) -> dict[str, str]:
        source = await self.read(paths.custom(plural, name)) or {}
        listed = (source.get("status") or {}).get("conditions", ())
        return {condition["type"]: condition["status"] for condition in listed}

    async def is_converted(self, replicas: int) -> bool:
        await self.report()
        machine_set = await self.read(paths.custom("machinesets", "web"))
        return (
            machine_set is not None
            and machine_set["spec"]["replicas"] == replicas
            and (await self.conditions("nodesets", "web")).get("Ready") == "True"
            and (await self.conditions("nodeclasses", "small")).get("Ready") == "True"
        )

    async def has_machine(self) -> bool:
        node = await self.read(paths.node("worker-7"))
        assert node is not None
        return (await self.count_machines()) == 1 and FINALIZER in node["metadata"]["finalizers"]

    async def is_node_gone(self) -> bool:
        node = await self.read(paths.node("worker-7"))
        return node is None and await self.count_machines() == 0

    async def count_machines(self) -> int:
        return len((await self.kube.get(MACHINES))["items"])

    async def reach(self, done: Any) -> None:
        """Live and die until this holds without a further death."""

        async def is_over() -> bool:
            return bool(await done()) or self.fate.dead.is_set()

        while True:
            async with living(self.url, self.fate, self.granted):
                await until(is_over, "not as wanted", SECONDS)
            if not self.fate.dead.is_set():
                return
            self.fate.reborn()


@pytest.mark.parametrize("after", [False, True])
async def test_killed_at_any_write_they_end_as_wanted(after: bool) -> None:
    crds = [definition(kind) for kind in KINDS]
    async with EmbeddedApiServer(crds=crds) as server:
        kube = Kube(PlainTransport(server.url))
        try:
            await _live_and_die(NodeSetWorld(kube, server.url, after))
        finally:
            await kube.close()


async def _live_and_die(world: NodeSetWorld) -> None:
    class_spec = {"nodeController": "local", "config": {"image": "debian"}}
    await world.create("NodeClass", "nodeclasses", "small", class_spec)
    await world.create("NodeSet", "nodesets", "web", {"nodeClass": "small", "replicas": 2})
    await world.reach(lambda: world.is_converted(2))
    await world.kube.patch(paths.custom("nodesets", "web"), {"spec": {"replicas": 5}})
    await world.reach(lambda: world.is_converted(5))
    metadata = {"name": "worker-7", "labels": {NODE_CLASS: "small"}}
    await world.kube.create(
        paths.nodes(), {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    )
    await world.reach(world.has_machine)
    await world.kube.delete(paths.node("worker-7"))
    await world.reach(world.is_node_gone)
    died = {(each.split(" ")[0], each.split(" ")[1].split("/")[-2]) for each in world.fate.died_at}
    assert {verb for verb, _ in died} == {"POST", "PATCH", "DELETE"}
    assert len(world.fate.died_at) >= 9
