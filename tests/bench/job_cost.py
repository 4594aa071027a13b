"""What one job costs in processor time, of our process and of the API server, beside a floor.

Method. Half of the nodes fail as fast as one client can say so. Processor time is counted from the
first patch until every job exists (`made`) and, for the product, until each has the status in which
it waits for a person's word (`settled`). What both processes use when nothing happens is measured
right before, and taken off. The floor is the bare controller of first_heal; both make as many jobs
on the same nodes. Patching the nodes is part of both figures of the API server. Wall time is told,
and says little on a machine with others on it.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from bench.first_heal import (
    KUBENODE,
    ROOT,
    flip,
    heal,
    is_ready,
    node_list,
    program,
    requests,
    rule,
    say,
    says,
    wait_ready,
    wide_limits,
)
from bench.processes import usage
from support.control_plane import ControlPlane
from support.daemons import free_port

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect

JOBS = paths.custom("remedyoperationjobs")
IDLE_SECONDS = 8.0
WAITING = "AwaitingApproval"


class _Phase(msgspec.Struct):
    phase: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str


class _Job(msgspec.Struct):
    spec: _Spec
    status: _Phase = msgspec.field(default_factory=_Phase)


class _Jobs(msgspec.Struct):
    items: list[_Job]


async def phases(kube: Kube) -> dict[str, str]:
    found = await kube.get(JOBS, msgspec.json.Decoder(_Jobs).decode)
    return {job.spec.node_name: job.status.phase for job in found.items}


async def cost(
    cp: ControlPlane, kube: Kube, pid: int, nodes: list[str], condition: str, phase: str
) -> dict[str, Any]:
    """`phase`: what a job must be in to be done with; "" for none."""
    pids = {"own": pid, "apiserver": cp.part("kube-apiserver").pid}
    before = {name: usage(each).cpu for name, each in pids.items()}
    await asyncio.sleep(IDLE_SECONDS)
    began, counted = time.monotonic(), requests(cp)
    busy = {name: usage(each).cpu for name, each in pids.items()}
    idles = {name: (busy[name] - before[name]) / IDLE_SECONDS for name in pids}
    gate = asyncio.Semaphore(64)

    def price() -> dict[str, Any]:
        """For each job so far."""
        seconds, did = time.monotonic() - began, requests(cp) - counted
        result: dict[str, Any] = {"seconds": round(seconds, 1)}
        for name, each in pids.items():
            net = usage(each).cpu - busy[name] - idles[name] * seconds
            result[f"{name}MsPerJob"] = round(net / len(nodes) * 1000, 2)
        rates = {k: round(v / len(nodes), 2) for k, v in sorted(did.items())}
        return result | {"requestsPerJob": {k: v for k, v in rates.items() if v >= 0.01}}

    async def patch(node: str) -> None:
        async with gate:
            await flip(kube, node, condition, "True")

    async with asyncio.TaskGroup() as tasks:
        for node in nodes:
            tasks.create_task(patch(node))
    made: dict[str, Any] = {}
    while True:
        await asyncio.sleep(0.5)
        seen = await phases(kube)
        if not made and seen.keys() >= set(nodes):
            made = price()
        if all(seen.get(node) == phase for node in nodes):
            break
        if time.monotonic() > began + 180:
            raise SystemExit(f"not all came to where they wait: {Counter(seen.values())} of jobs")
    settled = {} if phase == "" else {"settled": price()}
    idle = {f"{name}Idle": round(rate, 3) for name, rate in idles.items()}
    return {"made": made, **settled, **idle}


async def measure(cp: ControlPlane, count: int, rounds: int, folder: Path) -> dict[str, Any]:
    nodes = [f"n{i:05d}" for i in range(count // 2)]
    kube = Kube(connect(str(cp.kubeconfig)), rate=10_000, burst=10_000)
    kubeconfig = str(cp.kubeconfig)
    result: dict[str, Any] = {"nodes": count, "floor": [], "product": []}
    bare = [sys.executable, str(ROOT / "tests/bench/bare_controller.py"), kubeconfig]
    try:
        for number in range(rounds):
            log, condition = folder / f"bare-{number}.log", f"Bare{number}"
            with program([*bare, condition], partial(says, log, "ready"), log) as floor:
                seen = await cost(cp, kube, floor.pid, nodes, condition, "")
            say(f"floor: {seen}")
            result["floor"].append(seen)
            await kube.call("DELETE", JOBS, body={}, decode=len)
        await kube.create(paths.custom("noderemediers"), rule("bench", "Approve", "Bench"))
        port, log = free_port(), folder / "product.log"
        ours = [KUBENODE, "run", "all", "--kubeconfig", kubeconfig, "--health-port", str(port)]
        with program(ours, partial(is_ready, port), log) as operator:
            await asyncio.sleep(5)
            for number in range(rounds):
                seen = await cost(cp, kube, operator.pid, nodes, "Bench", WAITING)
                say(f"product: {seen}")
                result["product"].append(seen)
                if number + 1 < rounds:
                    await heal(kube, nodes, "Bench", 240)
                    await kube.call("DELETE", JOBS, body={}, decode=len)
                    await asyncio.sleep(15)
    finally:
        await kube.close()
    return result


def run(nodes: int, rounds: int) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="kubenode-bench-") as temporary,
        ControlPlane(kwok=True, scheduler=False) as cp,
    ):
        install = [KUBENODE, "install", "--kubeconfig", str(cp.kubeconfig)]
        subprocess.run(install, check=True, stdout=sys.stderr)
        cp.kubectl("apply", "-f", "-", stdin=msgspec.json.encode(wide_limits()).decode())
        listed = msgspec.json.encode(node_list(nodes)).decode()
        cp.kubectl("create", "-f", "-", stdin=listed, timeout=300)
        wait_ready(cp, nodes, 180)
        return asyncio.run(measure(cp, nodes, rounds, Path(temporary)))


def options(parser: argparse.ArgumentParser) -> None:
    flags = parser.add_argument_group("job_cost")
    flags.add_argument("--job-cost-nodes", type=int, default=400)
    flags.add_argument("--job-cost-rounds", type=int, default=2)


def figures(chosen: argparse.Namespace) -> dict[str, Any]:
    """Each round of the floor and of the product."""
    return run(chosen.job_cost_nodes, chosen.job_cost_rounds)
