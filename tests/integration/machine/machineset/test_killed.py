"""A set's controller that is killed at each of its writes, heard or not, ends the same."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.disruption_guard import GrantedDisruptions
from support.fate import FatedKube, Once
from support.machine_sets import CLASS, a_class, a_set
from support.machine_world import MACHINES, until

from kubenode.api.crd import definition
from kubenode.api.v1alpha1 import KINDS
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.paths import custom
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.process import serve
from machine.ground import SharedCaches
from machine.machineset.controller import MachineSets
from simulation.apiserver import EmbeddedApiServer

pytestmark = pytest.mark.integration

WRITES = re.compile(r"/(machines|machinesets)(/|$)")
T = "2026-01-01T00:00:00Z"


class Mortal(FatedKube):
    """A client whose writes of these kinds go through `fate`."""

    writes = WRITES

    def describe_act(self, method: str, path: str, body: Any) -> str:
        return f"{method} {path} {_told(body)}"


def _told(body: Any) -> str:
    """What is written, without versions and times."""
    if not isinstance(body, dict):
        return ""
    status = body.get("status") or {}
    conditions = [(c["type"], c["reason"]) for c in status.get("conditions", ())]
    counts = {key: value for key, value in status.items() if key != "conditions"}
    meta = body.get("metadata") or {}
    marks = meta.get("name"), meta.get("annotations"), (body.get("preconditions") or {}).get("uid")
    return f"{marks} {counts} {conditions}"


@asynccontextmanager
async def living(url: str, fate: Once, granted: GrantedDisruptions) -> AsyncIterator[None]:
    """The controller, until the end of the block."""
    kube = Mortal(PlainTransport(url))
    kube.fate = fate
    ground = SharedCaches(
        kube, AlwaysLeader(), SystemClock(), CollectorRegistry(), permit_reader=granted
    )
    sets = MachineSets(ground, granted)
    try:
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(serve([sets.controller], [*ground.informers]))
            yield
            fate.buried.set()
            work.cancel()
    finally:
        await kube.close()


class World:
    def __init__(self, kube: Kube, url: str, after: bool) -> None:
        self.kube, self.url = kube, url
        self.fate, self.granted = Once(after), GrantedDisruptions()
        self.seen: set[str] = set()

    async def machines(self) -> dict[str, dict[str, Any]]:
        found = {m["metadata"]["name"]: m for m in (await self.kube.get(MACHINES))["items"]}
        self.seen |= found.keys()
        return found

    async def told(self) -> Mapping[str, Any]:
        found = await self.kube.get(custom("machinesets", "s"))
        return found.get("status") or {}

    async def run_up(self, names: set[str]) -> None:
        """New machines come to run."""
        for name in names:
            ok = {"status": "True", "reason": "Test", "lastTransitionTime": T}
            conditions = [{"type": t, **ok} for t in ("Available", "NodeReady")]
            await self.status(name, phase="Running", initializedAt=T, conditions=conditions)

    async def status(self, name: str, **status: Any) -> None:
        await self.kube.patch(custom("machines", name, "status"), {"status": status})

    async def ends(self, replicas: int) -> None:
        """Live and die until the set is as wanted and nothing is written any more."""

        async def done() -> bool:
            machines = await self.machines()
            new = {
                name
                for name, m in machines.items()
                if not (m.get("status") or {}).get("initializedAt")
            }
            await self.run_up(new)
            told = await self.told()
            good = all(told.get(key) == replicas for key in ("replicas", "available"))
            good &= all((m.get("status") or {}).get("phase") != "Failed" for m in machines.values())
            return self.fate.dead.is_set() or (
                good and len(machines) == replicas and told["conditions"][0]["status"] == "True"
            )

        while True:
            async with living(self.url, self.fate, self.granted):
                await until(done, "not as wanted")
            if not self.fate.dead.is_set():
                return
            self.fate.reborn()


@pytest.mark.parametrize("after", [False, True])
async def test_killed_at_any_write_it_makes_no_machine_twice_and_ends_as_wanted(
    after: bool,
) -> None:
    crds = [definition(kind) for kind in KINDS]
    async with EmbeddedApiServer(crds=crds) as server:
        kube = Kube(PlainTransport(server.url))
        try:
            await _lives_and_dies(World(kube, server.url, after))
        finally:
            await kube.close()


async def _lives_and_dies(world: World) -> None:
    await _ready_class(world.kube)
    keep = {"preserve": {"max": 0}}
    await world.kube.create(custom("machinesets"), a_set("s", 3, health=keep, maxSurge=0))
    await world.ends(3)
    assert len(world.seen) == 3
    first = min(world.seen)
    await world.status(first, phase="Failed")
    await world.ends(3)
    assert len(world.seen) == 4 and first not in await world.machines()
    await world.kube.patch(custom("machinesets", "s"), {"spec": {"replicas": 1}})
    await world.ends(1)
    assert len(world.seen) == 4
    # It died at each kind of write: to make, to mark, to delete, to tell.
    verbs = {each.split(" ")[0] for each in world.fate.died_at}
    assert verbs == {"POST", "PATCH", "DELETE"}
    assert len(world.fate.died_at) >= 4 + 3 * 2


async def _ready_class(kube: Kube) -> None:
    made = await kube.create(custom("machineclasses"), a_class())
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Valid",
        "observedGeneration": made["metadata"]["generation"],
        "lastTransitionTime": T,
    }
    await kube.patch(custom("machineclasses", CLASS, "status"), {"status": {"conditions": [ready]}})
