"""The leader is killed under load: how long until somebody decides again, and is anything lost?

Method. A real kube-apiserver with a fleet that reports (bench.fleet), two processes `kubenode run
remedy` with the default lease. Nodes fail at a steady rate, before and after. The leader is killed
with SIGKILL; a decision is the first job of a node that failed after that. In the end every node
that failed must have one job, whoever made it.
"""

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import fleet
from bench.first_heal import Jobs, flip, say
from bench.product import LEADING, Product
from bench.steady import BEATS_PER_NODE, prepare
from support.control_plane import ControlPlane
from support.running import running

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect

CONDITION = "BenchHandover"
FAULTS_A_SECOND = 5.0
BEFORE, AFTER = 5.0, 20.0
"""Seconds of faults before the leader is killed, and after it."""
PATIENCE = 120.0


async def failing(kube: Kube, names: list[str], failed: dict[str, float]) -> None:
    """One node after the other; `failed` has when the server acknowledged it."""
    for node in names[: int((BEFORE + AFTER) * FAULTS_A_SECOND)]:
        failed[node] = await flip(kube, node, CONDITION, "True")
        await asyncio.sleep(1 / FAULTS_A_SECOND)


async def killed(kube: Kube, names: list[str], products: list[Product]) -> dict[str, Any]:
    jobs, failed = Jobs(), dict[str, float]()
    async with running(jobs.watch(kube)):
        await jobs.following.wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(failing(kube, names, failed))
            await asyncio.sleep(BEFORE)
            leader = max(products, key=lambda each: each.counted(LEADING))
            follower = next(each for each in products if each is not leader)
            before = follower.usage()
            leader.kill()
            at = time.monotonic()
        await jobs.wait_for(list(failed), PATIENCE)
    later = [node for node, when in failed.items() if when > at]
    first = min(jobs.seen[node] for node in later)
    found = await kube.get(paths.custom("remedyoperationjobs"))
    each = Counter(job["spec"]["nodeName"] for job in found["items"])
    return {
        "nextDecisionAfter": round(first - at, 2),
        "allDecidedAfter": round(max(jobs.seen[node] for node in later) - at, 2),
        "longestWithoutJob": round(max(jobs.seen[node] - failed[node] for node in failed), 2),
        "faults": len(failed),
        "jobs": each.total(),
        "nodesWithTwoJobs": sum(count > 1 for count in each.values()),
        "newLeader": follower.spent(before, at),
    }


async def measure(cp: ControlPlane, nodes: int, folder: Path) -> dict[str, Any]:
    kube = Kube(connect(str(cp.kubeconfig)), rate=10_000, burst=10_000)
    names = fleet.names(nodes)
    try:
        await fleet.make(kube, nodes)
        say(f"{nodes} nodes are there")
        beats = fleet.Heartbeats(kube, names, BEATS_PER_NODE * nodes)
        arguments = ["run", "remedy", "--kubeconfig", str(cp.kubeconfig)]
        products = [Product(folder, name, *arguments) for name in ("first", "second")]
        with ExitStack() as stack:
            stack.enter_context(products[0].running())
            stack.enter_context(products[1].running(at_once=True))
            while not all(each.follows(nodes) for each in products):
                time.sleep(0.1)  # noqa: ASYNC251  nothing else goes on yet
            async with running(beats.run()):
                return {"nodes": nodes, **await killed(kube, names, products)}
    finally:
        await kube.close()


def run(nodes: int) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="kubenode-bench-") as folder,
        ControlPlane(controllers=False, scheduler=False) as cp,
    ):
        prepare(cp, CONDITION)
        found = asyncio.run(measure(cp, nodes, Path(folder)))
        say(f"handover: {found}")
        return found


def options(parser: argparse.ArgumentParser) -> None:
    flags = parser.add_argument_group("handover")
    flags.add_argument("--handover-nodes", type=int, nargs="+", default=[1000])


def figures(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """One entry for each size of `--handover-nodes`."""
    return [run(nodes) for nodes in chosen.handover_nodes]
