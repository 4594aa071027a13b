"""Repairs on a host in memory, asked for through the agent's core and its journal on disk."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from support.agent_world import Killed, World, a_job
from support.clock import T0, settle

from agent.actions.allowlist import AllowedScript, Repairs
from agent.host.containers import Container, Image, Sandbox
from agent.host.ports import Certificate, Gpu, Module, Ports, Process
from agent.host.storage import HostMount, OldFile
from agent.wire import WireAnswer, WireJob
from simulation.hosts.host import SimulatedHost

MIB = 1024**2
SCRIPT = b"#!/bin/sh\nexit 0\n"
LOST = Process(4711, 99, "/usr/bin/lost", "lost.service")
ALLOWED = Repairs(mount_points=["/", "/data"], reload_modules=["mlx5_ib"])


def a_host() -> SimulatedHost:
    """Ill in every way that a repair mends."""
    host = SimulatedHost()
    old, young = T0 - timedelta(days=2), T0 - timedelta(minutes=1)
    host.processes.processes[LOST.pid] = LOST
    host.disks.free = host.disks.total // 20
    host.disks.files["logs"] = [
        OldFile("/var/log/a.1", 100 * MIB, old, 1),
        OldFile("/var/log/b.1", 100 * MIB, young, 2),
    ]
    host.containers.images = [Image("small", 10 * MIB), Image("large", 300 * MIB)]
    host.containers.ended = [Container("c-old", old), Container("c-young", young)]
    host.containers.pods = [
        Sandbox("a" * 64, False, False, "shop/web", old),
        Sandbox("b" * 64, True, False, "shop/db", old),
        Sandbox("c" * 64, False, True, "kube-system/proxy", old),
        Sandbox("d" * 64, False, False, "shop/new", young),
    ]
    host.time.offset = 0.4
    host.kernel.modules["mlx5_ib"] = Module("mlx5_ib", 0)
    host.kernel.installed.add("mlx5_ib")
    host.filesystems.mounts["/data"] = HostMount("/data", "/dev/vdb", "ext4", True, False)
    host.gpus.known = [Gpu("GPU-1", 0, 0, False, True), Gpu("GPU-2", 1, 0, False, True)]
    host.certificate.current = Certificate(T0 - timedelta(days=95), T0 + timedelta(days=5))
    return host


def world_of(folder: Path, host: SimulatedHost, job: WireJob | None = None) -> World:
    script = folder.parent / "script"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_bytes(SCRIPT)
    world = World(folder, job=job, ports=host.ports(), allowed=ALLOWED)
    digest = hashlib.sha256(SCRIPT).hexdigest()
    world.scripts["fix"] = AllowedScript(str(script), digest, ["-q"], {"device": ["eth0", "eth1"]})
    return world


def a_step(action: str, timeout: str = "60s", **params: str) -> WireJob:
    given: dict[str, Any] = {"action": action, "timeout": timeout, "params": params}
    if action == "RunScript":
        given["script"] = params.pop("script", "fix")
    return a_job(agent_step=given)


async def repaired(folder: Path, host: SimulatedHost, action: str, **params: str) -> WireAnswer:
    """The answer to one step on `host`."""
    world = world_of(folder, host, a_step(action, **params))
    return await answered(world)


async def answered(world: World) -> WireAnswer:
    """Processes of the agent, one after another as they die, until the job has its last answer."""
    for _ in range(5):
        core = world.core()

        async def life(core: Any = core) -> None:
            with suppress(Killed):
                await core.recover()
                assert world.job is not None
                await core.handle(world.job)

        await passing(world, life())
        if world.moments >= world.die_at:
            world.die_at = 0
        answer = world.answer_now
        if answer is not None and answer.state != "Running":
            return answer
    raise AssertionError("no answer")


async def passing(world: World, work: Awaitable[None]) -> None:
    """Do `work` while time passes."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(_run(work))
        while not task.done():
            await settle(4)
            if not task.done():
                world.clock.step(timedelta(seconds=0.5))


async def _run(work: Awaitable[None]) -> None:
    await work


class Dying:
    """A port whose every call is a moment at which the agent may die."""

    def __init__(self, port: Any, world: World, name: str, calls: list[str]) -> None:
        self._port, self._world, self._name, self._calls = port, world, name, calls

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        call = getattr(self._port, name)

        async def one(*args: Any) -> Any:
            with self._world.moment():
                self._calls.append(f"{self._name}.{name}")
                return await call(*args)

        return one


def dying(world: World, ports: Ports) -> tuple[Ports, list[str]]:
    """Ports that may die at each call, and what was called."""
    calls: list[str] = []
    made: dict[str, Any] = {
        f.name: Dying(getattr(ports, f.name), world, f.name, calls) for f in fields(Ports)
    }
    return Ports(**made), calls
