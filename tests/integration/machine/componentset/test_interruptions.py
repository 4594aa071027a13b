"""The operator dies at any of its writes, before or after it took effect, and another goes on."""

import asyncio
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
from support.component_agents import agents_of
from support.control_plane import ControlPlane
from support.machine_world import MachineWorld, closing, running, until
from support.set_world import SetWorld

from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import ServerUnreachable
from kubenode.runtime.kube.official import connect


class Fate:
    """Which of the writes about sets and their machines is the last of a life.

    died    no write is made any more, as after SIGKILL
    buried  who hangs in a write is let go: a controller that is ended waits for its reconciles
    """

    def __init__(self, applied: bool, writes: int) -> None:
        self.applied, self.left = applied, writes
        self.died, self.buried = asyncio.Event(), asyncio.Event()

    async def end(self) -> NoReturn:
        await self.buried.wait()
        raise ServerUnreachable("nothing of this life runs any more")


def mortal(fate: Fate) -> type[Kube]:
    class Mortal(Kube):
        async def call(self, method: str, path: str, *args, **rest):  # type: ignore[no-untyped-def]
            ours = "/machinecomponentsets/" in path or (
                "/machines/" in path and not path.endswith("/status")
            )
            if method not in ("PATCH", "POST") or not ours:
                return await super().call(method, path, *args, **rest)
            if fate.died.is_set():
                await fate.end()
            fate.left -= 1
            if fate.left > 0:
                return await super().call(method, path, *args, **rest)
            if fate.applied:
                await super().call(method, path, *args, **rest)
            fate.died.set()
            await fate.end()

    return Mortal


@pytest.mark.parametrize("applied", [False, True])
async def test_dying_at_any_write_ends_the_same(
    cluster: ControlPlane, tmp_path: Path, applied: bool
) -> None:
    tag = f"die{int(applied)}"
    async with (
        closing(Kube(connect(str(cluster.kubeconfig)))) as admin,
        closing(Kube(connect(str(cluster.kubeconfig)))) as kube,
        agents_of(kube, beat=0.3) as agents,
    ):
        world = SetWorld(MachineWorld(cluster, admin, tmp_path), agents, tag)
        machines = await world.machines(1)
        first = await world.component("1.0.0")
        await world.set(first)
        deaths = 0
        while not (await _done(world, first)):
            # What is not applied before a death is made good by the next life: it gets one more.
            fate = Fate(applied, writes=1 if applied else 1 + deaths % 3)
            async with running(cluster, kind=mortal(fate)):
                await until(partial(_dead_or_done, fate, world, first), "neither dead nor done")
                fate.buried.set()
            deaths += fate.died.is_set()
            assert deaths < 60, await world.now()
        assert deaths >= 4, "every write had its turn"
        async with running(cluster):
            await world.completed(first)
            await until(lambda: _free(world, machines), "a permit is left")
        acted = [name for name, component, _ in agents.acted if component == first]
        assert sorted(acted) == sorted(machines), "each once, whatever died"
        await world.clean()
        await world.world.clean()


async def _dead_or_done(fate: Fate, world: SetWorld, component: str) -> bool:
    return fate.died.is_set() or await _done(world, component)


async def _done(world: SetWorld, component: str) -> bool:
    status = (await world.now()).status
    found = next((r for r in status.revisions if r.name == status.current_revision), None)
    return status.phase == "Completed" and found is not None and found.component == component


async def _free(world: SetWorld, machines: list[str]) -> bool:
    found: list[Machine] = [await world.world.machine(name) for name in machines]
    return all(m.spec.permit is None for m in found)
