"""The life of one remedy process at full size: cold start, steady state, a server that restarts.

Method. A real kube-apiserver with Nodes as large as real ones (bench.fleet), the library's rules
and one of the benchmark, the product as `kubenode run remedy` without a Kube Defender: its jobs
stop at a person's word, so that what is measured is watching and deciding. The fleet's heartbeats
go on all the time. Cold start runs from the process's start; two faults are there already. In the
steady state one node after the other fails. Then the API server is killed and started again, which
ends every watch, and of what moved too far makes a cache list anew; the time runs from when the
server is ready. Turns of the event loop are measured from within (bench.turns), requests by the
product's own counters.

--steady-agents opens so many watches by `metadata.name` on AgentAssignments before the start, as
agents do, from a process of its own (bench.agent_watches). --steady-relist stops the product
(SIGSTOP) at the end, while Nodes change and the API server is restarted, which has then forgotten
its place: all Nodes are listed anew, and its memory is told before and after.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import fleet
from bench.agent_watches import AgentWatches, many_files
from bench.first_heal import KUBENODE, Jobs, flip, percentiles, rule, say
from bench.processes import Usage, usage
from bench.product import RELISTS, REQUESTS, Product
from support.control_plane import ControlPlane
from support.running import running

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect

CONDITION = "BenchSteady"
BEATS_PER_NODE = 70 / 10_000
PATIENCE = 180.0
SETTLED = 15.0
"""Seconds after a list in which what it changed is decided on."""
DOWN = 3.0
"""Seconds for which the API server is away."""


class Life:
    """One process from its start to its end."""

    def __init__(
        self,
        cp: ControlPlane,
        kube: Kube,
        product: Product,
        names: list[str],
        watches: AgentWatches | None = None,
        *,
        relist: bool = False,
    ) -> None:
        self.faults = 0
        self._watches, self._relist = watches, relist
        self._cp, self._kube, self._product, self._jobs = cp, kube, product, Jobs()
        self._left = list(names)
        random.Random(7).shuffle(self._left)

    async def fail(self) -> tuple[str, float]:
        """The next node to fail, and when the server had acknowledged it."""
        self.faults += 1
        node = self._left.pop()
        return node, await flip(self._kube, node, CONDITION, "True")

    async def _nodes_with_jobs(self) -> list[str]:
        """One for each job."""
        found = await self._kube.get(paths.custom("remedyoperationjobs"))
        return [job["spec"]["nodeName"] for job in found["items"]]

    async def decided(self, *nodes: str) -> float:
        """When all of `nodes` have jobs."""
        await self._jobs.wait_for(list(nodes), PATIENCE)
        return max(self._jobs.seen[node] for node in nodes)

    async def lived(self, seconds: float) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def add(name: str, figures: dict[str, Any]) -> None:
            found[name] = figures
            say(f"steady: {name}: {figures}")

        beats = fleet.Heartbeats(self._kube, self._left, BEATS_PER_NODE * len(self._left))
        waiting = [(await self.fail())[0] for _ in range(2)]
        with self._product.running(at_once=True):
            began = time.monotonic()
            async with running(beats.run()):
                async with running(self._jobs.watch(self._kube)):
                    add("coldStart", await self._cold_start(began, waiting))
                    add("steady", await self._steady(seconds))
                add("serverRestarted", await self._server_restarts())
                if self._relist:
                    add("relisted", await self._lists_anew())
            wrong = Counter(await self._nodes_with_jobs())
        return {
            **found,
            "heartbeats": beats.written,
            "faults": self.faults,
            "jobs": wrong.total(),
            "nodesWithTwoJobs": sum(count > 1 for count in wrong.values()),
        }

    async def _cold_start(self, began: float, waiting: list[str]) -> dict[str, Any]:
        while not await asyncio.to_thread(self._product.ready):
            self._product.require_alive()
            await asyncio.sleep(0.02)
        ready = time.monotonic()
        return {
            "readyAfter": round(ready - began, 2),
            "decidedAfter": round(await self.decided(*waiting) - began, 2),
            **self._product.spent(Usage(0, 0), 0),
        }

    async def _steady(self, seconds: float) -> dict[str, Any]:
        before, began, taken = self._product.usage(), time.monotonic(), list[float]()
        asked = self._product.counted(REQUESTS)
        server_before = usage(self._cp.part("kube-apiserver").pid)
        while time.monotonic() < began + seconds or len(taken) < 2:
            node, acknowledged = await self.fail()
            taken.append(max(0.0, await self.decided(node) - acknowledged))
            await asyncio.sleep(random.uniform(0.5, 1.5))
        found, lasted = self._product.spent(before, began), time.monotonic() - began
        server = usage(self._cp.part("kube-apiserver").pid)
        made = self._product.counted(REQUESTS) - asked
        return {
            "seconds": round(lasted, 1),
            "cpuShare": round(found["cpuSeconds"] / lasted, 3),
            "requestsPerFault": round(made / len(taken), 1),
            "faultToJob": {"n": len(taken), **percentiles(taken)},
            "server": {
                "cpuShare": round((server.cpu - server_before.cpu) / lasted, 3),
                "rssMB": round(server.rss / 1e6),
            },
            **({"agents": self._watches.told()} if self._watches is not None else {}),
            **found,
        }

    async def _server_restarts(self) -> dict[str, Any]:
        before, lists = self._product.usage(), self._product.counted(RELISTS, resource="nodes")
        self._cp.part("kube-apiserver").kill()
        await asyncio.sleep(DOWN)
        self._cp.restart("kube-apiserver")
        back = time.monotonic()
        node, acknowledged = await self.fail()
        while True:
            if node in await self._nodes_with_jobs():
                break
            await asyncio.sleep(0.02)
        decided = time.monotonic()
        while not await asyncio.to_thread(self._product.ready):
            self._product.require_alive()
            await asyncio.sleep(0.05)
        again = self._product.counted(RELISTS, resource="nodes") - lists
        return {
            "faultAfter": round(acknowledged - back, 2),
            "decidedAfter": round(decided - back, 2),
            "readyAfter": round(time.monotonic() - back, 2),
            "listsOfNodes": again,
            **self._product.spent(before, back),
        }

    async def _lists_anew(self) -> dict[str, Any]:
        """All Nodes; memory is read when that is done and again once it has settled."""
        lists = self._product.counted(RELISTS, resource="nodes")
        before, began = self._product.usage(), time.monotonic()
        os.kill(self._product.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(DOWN)  # heartbeats go on
            self._cp.part("kube-apiserver").kill()
            self._cp.restart("kube-apiserver")
            await asyncio.sleep(DOWN)
        finally:
            os.kill(self._product.pid, signal.SIGCONT)
        while not self._product.counted(RELISTS, resource="nodes") > lists:
            self._product.require_alive()
            if time.monotonic() > began + PATIENCE:
                raise SystemExit("Nodes were not listed anew")
            await asyncio.sleep(0.1)
        at_once = self._product.usage()
        await asyncio.sleep(SETTLED)
        return {
            "rssMBBefore": round(before.rss / 1e6, 1),
            "rssMBAtOnce": round(at_once.rss / 1e6, 1),
            "listsOfNodes": self._product.counted(RELISTS, resource="nodes") - lists,
            **self._product.spent(before, began),
        }


async def measure(
    cp: ControlPlane, nodes: int, chosen: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    kube = Kube(connect(str(cp.kubeconfig)), rate=10_000, burst=10_000)
    try:
        await fleet.make(kube, nodes)
        say(f"{nodes} nodes are there")
        arguments = ["run", "remedy", "--no-lease", "--kubeconfig", str(cp.kubeconfig)]
        product = Product(folder, "remedy", *arguments)
        names, agents = fleet.names(nodes), chosen.steady_agents
        with ExitStack() as stack:
            watches = None
            if agents:
                watches = stack.enter_context(AgentWatches.open(cp, agents, names))
                say(f"{agents} agents watch")
            life = Life(cp, kube, product, names, watches, relist=chosen.steady_relist)
            lived = await life.lived(chosen.steady_seconds)
        return {"nodes": nodes, "agents": agents, **lived}
    finally:
        await kube.close()


def prepare(cp: ControlPlane, condition: str) -> None:
    """The CRDs, the library's rules, and one that answers `condition` with a job."""
    given = ["--kubeconfig", str(cp.kubeconfig)]
    for command in (["install"], ["rules", "install", "all"]):
        subprocess.run([KUBENODE, *command, *given], check=True, stdout=subprocess.DEVNULL)
    answer = rule("bench", "Approve", condition)
    cp.kubectl("apply", "-f", "-", stdin=json.dumps(answer))


def run(nodes: int, chosen: argparse.Namespace) -> dict[str, Any]:
    if chosen.steady_agents:
        many_files()
    with (
        tempfile.TemporaryDirectory(prefix="kubenode-bench-") as folder,
        ControlPlane(controllers=False, scheduler=False) as cp,
    ):
        prepare(cp, CONDITION)
        return asyncio.run(measure(cp, nodes, chosen, Path(folder)))


def options(parser: argparse.ArgumentParser) -> None:
    flags = parser.add_argument_group("steady")
    flags.add_argument("--steady-nodes", type=int, nargs="+", default=[1000])
    flags.add_argument("--steady-seconds", type=float, default=30.0)
    flags.add_argument(
        "--steady-agents", type=int, default=0, help="watches of agents, open always"
    )
    flags.add_argument(
        "--steady-relist", action="store_true", help="list all Nodes anew at the end"
    )


def figures(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """One entry for each size of `--steady-nodes`."""
    return [run(nodes, chosen) for nodes in chosen.steady_nodes]
