"""Half of a fleet fails at once under the policy that ships: how soon is it held, and always?

Method. A real kube-apiserver with kwok nodes in three zones; the product runs as `kubenode run
all`. A condition that a rule in Enforce answers with a cordon is patched to True on half of the
nodes, as fast as one client can. Times run from the first patch sent. The independent observer of
the demo watches nodes, jobs and permits through watches of its own, in the server's order, and
judges every permit by its own arithmetic: no limit may be passed at any instant.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from bench.first_heal import (
    KUBENODE,
    flip,
    is_ready,
    node_list,
    price,
    program,
    requests,
    rule,
    say,
    wait_ready,
)
from bench.processes import usage
from support.control_plane import ControlPlane
from support.daemons import free_port
from support.running import until

from kubenode.api.v1alpha1 import default_policy
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect
from kubenode.runtime.process import serve
from simulation.demo.faults import Kind
from simulation.demo.ledger import Ledger
from simulation.demo.observer import Observer
from simulation.demo.watches import Watching

CONDITION = "BenchStorm"
LIMIT = 180.0
AFTER = 30.0
"""Seconds for which it is watched once every job is held: nothing more may be granted."""
ACTING = ("Running", "Verifying")


class Eyes:
    """When things were first seen. Reads what `Watching` has been told of jobs and policy."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self.opened: dict[str, float] = {}
        self.made: dict[str, float] = {}
        self.told: dict[str, float] = {}

    def look(self, now: float) -> None:
        for scope, state in self._watching.breakers:
            if state == "Open":
                self.opened.setdefault(scope, now)
        for job in self._watching.jobs.values():
            node, status = job["spec"]["nodeName"], job.get("status") or {}
            self.made.setdefault(node, now)
            if (status.get("hold") or {}).get("reason") or status.get("phase") in ACTING:
                self.told.setdefault(node, now)

    def reasons(self) -> dict[str, int]:
        """Why jobs wait now, and how many."""
        states = (job.get("status") or {} for job in self._watching.jobs.values())
        return dict(Counter((s.get("hold") or {}).get("reason") or "acting" for s in states))


async def storm(kube: Kube, eyes: Eyes, nodes: list[str]) -> dict[str, Any]:
    """Patch all of `nodes`; return once every one has a job that says why it waits, or acts."""
    gate, began = asyncio.Semaphore(64), time.monotonic()
    acknowledged: list[float] = []

    async def patch(node: str) -> None:
        async with gate:
            acknowledged.append(await flip(kube, node, CONDITION, "True"))

    async with asyncio.TaskGroup() as tasks:
        for node in nodes:
            tasks.create_task(patch(node))
        while len(eyes.told) < len(nodes) and time.monotonic() < began + LIMIT:
            await asyncio.sleep(0.02)
            eyes.look(time.monotonic())
    return {
        "allPatchedAfter": round(max(acknowledged) - began, 3),
        "firstBreakerOpenAfter": _after(min(eyes.opened.values(), default=None), began),
        "breakersOpen": {
            scope.rpartition("=")[2]: _after(at, began) for scope, at in eyes.opened.items()
        },
        "jobs": len(eyes.made),
        "allJobsAfter": _after(max(eyes.made.values(), default=None), began),
        "jobsThatSayWhy": len(eyes.told),
        "allHeldAfter": _after(max(eyes.told.values(), default=None), began),
    }


def _after(at: float | None, began: float) -> float | None:
    return None if at is None else round(at - began, 3)


async def measure(cp: ControlPlane, nodes: int, hit: list[str], pid: int) -> dict[str, Any]:
    kube = Kube(connect(str(cp.kubeconfig)), rate=10_000, burst=10_000)
    eyes_kube = Kube(connect(str(cp.kubeconfig)))
    clock, ledger = SystemClock(), Ledger()
    observer = Observer(default_policy(), ledger)
    watching = Watching(eyes_kube, observer, ledger, clock, lambda node, phase, hold: None)
    eyes = Eyes(watching)
    try:
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(serve([watching], watching.parts()))
            await until(lambda: len(observer.nodes) == nodes, 60, "all nodes are seen")
            for node in hit:
                ledger.inject(node, Kind.RUNTIME_HUNG, clock.monotonic())
            apiserver = cp.part("kube-apiserver").pid
            before = usage(pid), usage(apiserver), requests(cp)
            result = await storm(kube, eyes, hit)
            cost = price(cp, pid, apiserver, before, len(hit))
            say(f"storm: {result} {cost}")
            await asyncio.sleep(AFTER)
            work.cancel()
        watching.apply(clock.monotonic())
    finally:
        await kube.close()
        await eyes_kube.close()
    return {
        "nodes": nodes,
        "failed": len(hit),
        **result,
        "reasons": eyes.reasons(),
        "permits": observer.grants,
        "limitViolations": len(observer.limit_violations),
        "limitViolationsSeen": [f"{f.node}: {f.what}" for f in observer.limit_violations[:10]],
        "falseActions": len(observer.false_actions),
        "observerGaps": watching.relists,
        **cost,
    }


def run(nodes: int, share: float, seed: int) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="kubenode-bench-") as temporary,
        ControlPlane(kwok=True, scheduler=False) as cp,
    ):
        kubeconfig = str(cp.kubeconfig)
        install = [KUBENODE, "install", "--kubeconfig", kubeconfig]
        subprocess.run(install, check=True, stdout=sys.stderr)
        cp.kubectl("create", "-f", "-", stdin=json.dumps(node_list(nodes)), timeout=300)
        answer = rule("bench-storm", "Enforce", CONDITION)
        cp.kubectl("apply", "-f", "-", stdin=json.dumps(answer))
        wait_ready(cp, nodes, 180)
        say(f"{nodes} nodes are Ready")
        port, log = free_port(), Path(temporary) / "kubenode.log"
        # A machine that cannot keep up must show as late, not as a lease that was lost.
        ours = [KUBENODE, "run", "all", "--no-lease", "--kubeconfig", kubeconfig]
        ours += ["--health-port", str(port)]
        with program(ours, partial(is_ready, port), log) as operator:
            names = [f"n{i:05d}" for i in range(nodes)]
            hit = random.Random(seed).sample(names, round(nodes * share))
            found = asyncio.run(measure(cp, nodes, hit, operator.pid))
            if operator.poll() is not None:
                raise SystemExit(f"kubenode ended with {operator.returncode}: {found}")
            return found


def options(parser: argparse.ArgumentParser) -> None:
    flags = parser.add_argument_group("storm")
    flags.add_argument("--storm-nodes", type=int, nargs="+", default=[2000])
    flags.add_argument("--storm-share", type=float, default=0.5, help="of the nodes that fail")
    flags.add_argument("--storm-seed", type=int, default=7)


def figures(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """One entry for each size of `--storm-nodes`."""
    return [run(nodes, chosen.storm_share, chosen.storm_seed) for nodes in chosen.storm_nodes]
