"""Permits per second and how long a question waits, from memory and through Redis.

Method. `kubenode run defender` as people start it, 1 process from memory, 1 and 3 processes with a
redis-server, on the real control plane, which writes a Permit and its status for every grant and a
status for every release. Askers ask over HTTP, check, and give back at once; there is more room
than askers, so that nobody is refused. The time of a question runs from its sending to its answer.
Askers, processes and servers share the cores.
"""

import argparse
import asyncio
import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from support.control_plane import ControlPlane
from support.daemons import free_port
from support.defender_world import a_policy
from support.programs import KUBENODE, Program
from support.redis_askers import Asker, Count, Figures
from support.redis_server import RedisServer
from support.remedy_cluster import Cluster, connected, install_crds

from defender.client import DefenderUnreachable, HttpPermits
from kubenode.api.v1alpha1.defenderpolicy import Limit, LimitScope, PerNode
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.errors import AlreadyExists

NAMESPACE = "kubenode-system"
COLLECTIONS = (paths.custom("permits"), paths.custom("defenderpolicies"), paths.nodes())
READY_SECONDS = 120.0
CASES = (("memory", 1), ("redis", 1), ("redis", 3))


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--permit-askers", type=int, default=16, help="who ask at once")
    parser.add_argument("--permit-seconds", type=float, default=10.0, help="for each store")


def figures(arguments: argparse.Namespace) -> dict[str, Any]:
    askers, seconds = arguments.permit_askers, arguments.permit_seconds
    found: dict[str, Any] = {"askers": askers, "seconds": seconds}
    with ControlPlane(controllers=False, scheduler=False) as plane:
        install_crds(plane)
        for store, replicas in CASES:
            with tempfile.TemporaryDirectory() as folder:
                case = _case(plane, Path(folder), store, replicas, askers, seconds)
                found[f"{store}{replicas}"] = asyncio.run(case)
    return found


async def _case(
    plane: ControlPlane, folder: Path, store: str, replicas: int, askers: int, seconds: float
) -> dict[str, float]:
    async with connected(plane) as cluster:
        await _prepare(cluster, askers)
        if store == "memory":
            return await _measured(plane, folder, replicas, (), askers, seconds)
        with RedisServer(folder) as redis:
            words = ("--redis-url", redis.url, "--cluster", "bench")
            return await _measured(plane, folder, replicas, words, askers, seconds)


async def _prepare(cluster: Cluster, askers: int) -> None:
    for collection in COLLECTIONS:
        await cluster.kube.call("DELETE", collection)
    with contextlib.suppress(AlreadyExists):
        await cluster.kube.create(paths.namespaces(), {"metadata": {"name": NAMESPACE}})
    policy = a_policy(
        Limit(scope=LimitScope.CLUSTER, max_concurrent=askers), per_node=PerNode(max_acts=1000)
    )
    await cluster.kube.create(COLLECTIONS[1], policy.to_dict())
    for i in range(askers):
        await cluster.node(f"n{i}")


async def _measured(
    plane: ControlPlane,
    folder: Path,
    replicas: int,
    words: Sequence[str],
    askers: int,
    seconds: float,
) -> dict[str, float]:
    ports = [free_port() for _ in range(replicas)]
    programs = [_program(plane, folder, port, words) for port in ports]
    clients = [HttpPermits(f"http://127.0.0.1:{port}") for port in ports]
    try:
        for program in programs:
            program.start()
        for client, program in zip(clients, programs, strict=True):
            await _ready(client, program)
        return await _asked(clients, askers, seconds)
    finally:
        for client in clients:
            await client.close()
        for program in programs:
            program.stop()


def _program(plane: ControlPlane, folder: Path, port: int, words: Sequence[str]) -> Program:
    flags = (
        *("run", "defender", "--kubeconfig", str(plane.kubeconfig), "--namespace", NAMESPACE),
        *("--listen-port", str(port), "--health-port", "0", *words),
    )
    return Program(f"defender-{port}", flags, folder, KUBENODE)


async def _ready(client: HttpPermits, program: Program) -> None:
    end = monotonic() + READY_SECONDS
    while True:
        try:
            if (await client.check("none", 0)).message.startswith("no permit"):
                return
        except DefenderUnreachable:
            pass
        if monotonic() > end:
            raise SystemExit(f"Kube Defender is not ready:\n{program.log[-2000:]}")
        await asyncio.sleep(0.1)


async def _asked(clients: Sequence[HttpPermits], askers: int, seconds: float) -> dict[str, float]:
    found, count = Figures(), Count(askers, askers, lambda node: "")
    began = monotonic()
    async with asyncio.TaskGroup() as tasks:
        for i in range(askers):
            asker = Asker(i, f"n{i}", clients, count, found, holds=0.0)
            tasks.create_task(asker.run(began + seconds))
    if count.violations or found.lost:
        raise SystemExit(f"limits were broken: {count.violations or found.lost}")
    return found.told(monotonic() - began)
