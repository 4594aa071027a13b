"""How soon a fault becomes a job, and at what price, on a real kube-apiserver with kwok nodes.

Method. A condition of a Node is patched to True; the clock starts when the API server has
acknowledged the patch, and stops when a watch of this process sees the RemedyOperationJob of that
node. "One at a time" waits for each job and a random pause before the next flip. A burst patches
many Nodes as fast as one client can; its time runs from the first patch sent to the last job seen.
With `defaults` the rule leaves groupWait and startupGrace as they are: the job begins later, and is
there as soon.
The product runs as `kubenode run all`, the floor (bare_controller.py) beside it in the same run but
never at the same time. CPU and memory are read from /proc, requests from the API server's own
metrics, without those of kwok and of this process.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from bench.processes import usage
from support.control_plane import ControlPlane
from support.daemons import free_port

from kubenode.api.v1alpha1 import DefenderPolicy
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH, Kube
from kubenode.runtime.kube.official import connect

ROOT = Path(__file__).parents[2]
KUBENODE = str(ROOT / ".venv/bin/kubenode")
ZONES = ("a", "b", "c")
LAST = ("enforce", "burst")
OURS = frozenset({"remedyoperationjobs", "permits", "noderemediers", "defenderpolicies", "events"})
"""Resources that only the product touches here; of nodes it is the GETs (kwok only patches)."""


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str


class _JobSpec(msgspec.Struct, rename="camel"):
    node_name: str


class _Job(msgspec.Struct):
    metadata: _Meta
    spec: _JobSpec


class _WatchEvent(msgspec.Struct):
    type: str
    object: _Job


class Jobs:
    """When the first job of each node was seen; `clear()` between phases."""

    def __init__(self) -> None:
        self.seen: dict[str, float] = {}
        self._news = asyncio.Event()
        self.following = asyncio.Event()

    def clear(self) -> None:
        self.seen.clear()

    async def watch(self, kube: Kube) -> None:
        """Follow all jobs. The server ends a watch that falls behind in a burst: resume, always."""
        decode = msgspec.json.Decoder(_WatchEvent).decode
        path = paths.custom("remedyoperationjobs")
        version = (await kube.get(path))["metadata"]["resourceVersion"]
        self.following.set()
        while True:
            query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": 300}
            answer = await kube.open("GET", path, query, timeout=320)
            while line := await answer.content.readline():
                event = decode(line)
                version = event.object.metadata.resource_version
                if event.type == "ADDED":
                    self.seen.setdefault(event.object.spec.node_name, time.monotonic())
                    self._news.set()

    async def wait_for(self, nodes: list[str], seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not all(node in self.seen for node in nodes):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError as error:
            late = [node for node in nodes if node not in self.seen]
            text = f"{len(late)} of {len(nodes)} nodes have no job, such as {late[:3]}"
            raise SystemExit(f"not within {seconds:g} s: {text}") from error


async def flip(kube: Kube, node: str, condition: str, status: str) -> float:
    """The time at which the API server has acknowledged it."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    reported = {
        "type": condition,
        "status": status,
        "reason": "Bench",
        "message": "set by the benchmark",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    body = {"status": {"conditions": [reported]}}
    await kube.patch(paths.node(node, "status"), body, STRATEGIC_PATCH, decode=len)
    return time.monotonic()


async def one_at_a_time(kube: Kube, jobs: Jobs, nodes: list[str], condition: str) -> dict[str, Any]:
    jobs.clear()
    taken = []
    for node in nodes:
        acknowledged = await flip(kube, node, condition, "True")
        await jobs.wait_for([node], 30)
        # The watch may bring the job before the answer to the patch has been read.
        taken.append(max(0.0, jobs.seen[node] - acknowledged))
        await asyncio.sleep(random.uniform(0.1, 0.3))
    return {"n": len(taken), **percentiles(taken)}


async def burst(kube: Kube, jobs: Jobs, nodes: list[str], condition: str) -> dict[str, Any]:
    jobs.clear()
    began = time.monotonic()
    gate = asyncio.Semaphore(64)
    acknowledged: dict[str, float] = {}

    async def patch(node: str) -> None:
        async with gate:
            acknowledged[node] = await flip(kube, node, condition, "True")

    async with asyncio.TaskGroup() as tasks:
        for node in nodes:
            tasks.create_task(patch(node))
    await jobs.wait_for(nodes, 120)
    each = [max(0.0, jobs.seen[n] - acknowledged[n]) for n in nodes]
    return {
        "n": len(nodes),
        "allPatchedAfter": round(max(acknowledged.values()) - began, 3),
        "allJobsAfter": round(max(jobs.seen[n] for n in nodes) - began, 3),
        **percentiles(each),
    }


def percentiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {"p50": round(cuts[49], 4), "p99": round(cuts[98], 4), "max": round(max(seconds), 4)}


def requests(cp: ControlPlane, of: Collection[str] = OURS) -> Counter[str]:
    """Requests served so far, by `VERB resource/subresource`, of these resources."""
    counted: Counter[str] = Counter()
    for line in cp.metrics().splitlines():
        if not line.startswith("apiserver_request_total{"):
            continue
        labels, value = line[len("apiserver_request_total{") :].rsplit("} ", 1)
        pairs = dict(
            part.split("=", 1) for part in labels.replace('"', "").split(",") if "=" in part
        )
        resource, verb = pairs.get("resource", ""), pairs.get("verb", "")
        if (resource in of and verb != "WATCH") or (resource == "nodes" and verb == "GET"):
            name = f"{verb} {resource}" + (f"/{s}" if (s := pairs.get("subresource")) else "")
            counted[name] += int(float(value))
    return counted


def node_list(count: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": f"n{i:05d}",
                    "annotations": {"kwok.x-k8s.io/node": "fake"},
                    "labels": {
                        "kubernetes.io/os": "linux",
                        "topology.kubernetes.io/zone": ZONES[i % len(ZONES)],
                        "kubenode.io/pool": f"p{i % 10}",
                    },
                },
            }
            for i in range(count)
        ],
    }


def wait_ready(cp: ControlPlane, count: int, seconds: float) -> None:
    """Until `count` nodes are Ready; `kubectl wait` asks for one after the other, ten a second."""
    deadline = time.monotonic() + seconds
    ready = 0
    while time.monotonic() < deadline:
        conditions = [
            node["status"].get("conditions", []) for node in cp.get(paths.nodes())["items"]
        ]
        ready = sum(
            any(c["type"] == "Ready" and c["status"] == "True" for c in n) for n in conditions
        )
        if ready >= count:
            return
        time.sleep(1)
    raise SystemExit(f"{ready} of {count} nodes are Ready after {seconds:g} s")


def rule(name: str, mode: str, condition: str, *, defaults: bool = False) -> dict[str, Any]:
    """defaults  its groupWait and startupGrace are the product's: the job is there and waits"""
    waits = {} if defaults else {"groupWait": "0s", "startupGrace": "0s"}
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "NodeRemedier",
        "metadata": {"name": name},
        "spec": {
            "mode": mode,
            "faultClass": "bench",
            "nodes": {"all": True},
            "when": {"condition": {"type": condition, "status": "True"}},
            **waits,
            "cooldown": "0s",
            "attempts": {"max": 100, "within": "1h"},
            "onGiveUp": "Release",
            "ladder": [
                {
                    "name": "mark",
                    "steps": [{"cordon": {}}, {"notify": {}}],
                    "verify": {"for": "1s", "settle": "0s", "timeout": "1h"},
                }
            ],
        },
    }


def wide_limits() -> dict[str, Any]:
    wide = {"scope": "Cluster", "maxConcurrent": "100%"}
    spec = {
        "nodes": {"all": True},
        "limits": [wide],
        "perNode": {"maxActs": 1000, "within": "1h"},
        "smallPool": {"nodes": 0},
    }
    policy = DefenderPolicy.from_user({"metadata": {"name": "default"}, "spec": spec})
    return policy.to_dict()


@contextmanager
def program(
    arguments: list[str], ready: Callable[[], bool], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the block ends; the block begins when `ready` says so."""
    with log.open("wb") as out:
        process = subprocess.Popen(arguments, stdout=out, stderr=out, start_new_session=True)
        try:
            while not ready():
                if process.poll() is not None:
                    raise SystemExit(f"{arguments[0]} ended at once:\n{log.read_text()}")
                time.sleep(0.05)
            yield process
        except BaseException:
            say(f"{arguments[0]} said last:\n{log.read_text()[-2000:]}")
            raise
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def says(log: Path, word: str) -> bool:
    return word in log.read_text()


def is_ready(port: int) -> bool:
    """Whether /readyz of a program on this machine says yes."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)  # noqa: T201  progress for a person


async def heal(kube: Kube, nodes: list[str], condition: str, seconds: float) -> None:
    """Report the fault gone, again and again as a detector does, until no job is open.

    One phase must not work for another; and only a report made after an act proves anything.
    """
    deadline = time.monotonic() + seconds
    phases: Counter[str] = Counter()
    while time.monotonic() < deadline:
        for node in nodes:
            await flip(kube, node, condition, "False")
        jobs = await kube.get(paths.custom("remedyoperationjobs"))
        phases = Counter(j.get("status", {}).get("phase", "Pending") for j in jobs["items"])
        if not set(phases) - {"Succeeded", "Failed", "Cancelled"}:
            return
        await asyncio.sleep(2)
    say(f"still open after {seconds:.0f} s: {phases}")


PHASES = (("oneAtATime", one_at_a_time), ("burst", burst))


async def measure(
    cp: ControlPlane, nodes: int, singles: int, burst_size: int, folder: Path
) -> dict[str, Any]:
    names = [f"n{i:05d}" for i in range(nodes)]
    random.Random(7).shuffle(names)
    kube = Kube(connect(str(cp.kubeconfig)), rate=10_000, burst=10_000)
    watching = Kube(connect(str(cp.kubeconfig)))
    jobs = Jobs()
    result: dict[str, Any] = {"nodes": nodes}
    apiserver = cp.part("kube-apiserver").pid
    try:
        async with asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(jobs.watch(watching))
            await jobs.following.wait()
            kubeconfig = str(cp.kubeconfig)
            bare = [sys.executable, str(ROOT / "tests/bench/bare_controller.py"), kubeconfig]
            for phase, run in PHASES:
                chosen = names[:singles] if run is one_at_a_time else names[-burst_size:]
                log = folder / f"bare-{phase}.log"
                with program([*bare, f"Bare{phase}"], partial(says, log, "ready"), log) as floor:
                    before = usage(floor.pid), usage(apiserver), requests(cp)
                    result.setdefault("floor", {})[phase] = await run(
                        kube, jobs, chosen, f"Bare{phase}"
                    )
                    result["floor"][phase] |= price(cp, floor.pid, apiserver, before, len(chosen))
                say(f"floor {phase}: {result['floor'][phase]}")
            await kube.call("DELETE", paths.custom("remedyoperationjobs"), body={}, decode=len)

            port = free_port()
            ours = [KUBENODE, "run", "all", "--kubeconfig", kubeconfig, "--health-port", str(port)]
            for name, mode in (
                ("defaults", "Approve"),
                ("approve", "Approve"),
                ("enforce", "Enforce"),
            ):
                condition, defaults = f"Bench{name.capitalize()}", name == "defaults"
                made = rule(f"bench-{name}", mode, condition, defaults=defaults)
                await kube.create(paths.custom("noderemediers"), made)
                phases = PHASES[:1] if defaults else PHASES
                log = folder / f"{name}.log"
                with program(ours, partial(is_ready, port), log) as operator:
                    result[name] = {}
                    for phase, run in phases:
                        chosen = names[:singles] if run is one_at_a_time else names[-burst_size:]
                        before = usage(operator.pid), usage(apiserver), requests(cp)
                        result[name][phase] = await run(kube, jobs, chosen, condition)
                        if name != "enforce":  # the jobs stop there: what is counted is creation
                            await asyncio.sleep(3)
                        result[name][phase] |= price(
                            cp, operator.pid, apiserver, before, len(chosen)
                        )
                        say(f"{name} {phase}: {result[name][phase]}")
                        if (name, phase) != LAST:
                            await heal(kube, chosen, condition, 240)
                    result[name]["rssMB"] = round(usage(operator.pid).rss / 1e6, 1)
                await kube.delete(paths.custom("noderemediers", f"bench-{name}"))
                await kube.call("DELETE", paths.custom("remedyoperationjobs"), body={}, decode=len)
            watch.cancel()
    finally:
        await kube.close()
        await watching.close()
    return result


def price(
    cp: ControlPlane, pid: int, apiserver: int, before: tuple[Any, Any, Counter[str]], jobs: int
) -> dict[str, Any]:
    """CPU milliseconds and API requests per job since `before`, memory now."""
    made = requests(cp) - before[2]
    return {
        "cpuMsPerJob": round((usage(pid).cpu - before[0].cpu) / jobs * 1000, 2),
        "apiserverCpuMsPerJob": round((usage(apiserver).cpu - before[1].cpu) / jobs * 1000, 2),
        "requestsPerJob": {
            k: round(v / jobs, 2) for k, v in sorted(made.items()) if v / jobs >= 0.01
        },
        "rssMB": round(usage(pid).rss / 1e6, 1),
    }


def run(nodes: int, singles: int, burst_size: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="kubenode-bench-") as temporary:
        folder = Path(temporary)
        with ControlPlane(kwok=True, scheduler=False) as cp:
            install = [KUBENODE, "install", "--kubeconfig", str(cp.kubeconfig)]
            subprocess.run(install, check=True, stdout=sys.stderr)
            cp.kubectl("apply", "-f", "-", stdin=json.dumps(wide_limits()))
            cp.kubectl("create", "-f", "-", stdin=json.dumps(node_list(nodes)), timeout=300)
            wait_ready(cp, nodes, 180)
            say(f"{nodes} nodes are Ready")
            return asyncio.run(measure(cp, nodes, singles, burst_size, folder))


def options(parser: argparse.ArgumentParser) -> None:
    flags = parser.add_argument_group("first_heal")
    flags.add_argument("--nodes", type=int, nargs="+", default=[1000])
    flags.add_argument("--singles", type=int, default=100, help="faults one at a time")
    flags.add_argument("--burst", type=int, default=0, help="faults at once (0: half of the nodes)")


def figures(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """One entry for each size of `--nodes`."""
    return [run(nodes, chosen.singles, chosen.burst or nodes // 2) for nodes in chosen.nodes]
