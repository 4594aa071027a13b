"""Half of a fleet drained at once, limits wide: how fast, and what it costs the API server.

Method. A real kube-apiserver with kwok nodes and ten pods a node, more on those that will be
drained (11,250 of 20,000 pods at 2,000 nodes). Every twentieth application has a
PodDisruptionBudget that allows what is asked, kept by the real disruption controller; nobody
replaces the pods, so that what is measured is the draining. A condition that a rule answers with
cordon and migrate is patched to True on half of the nodes, as fast as one client can; the product
runs as `kubenode run all`. Times run from the first patch sent to the last job whose node is empty,
as the jobs' own timelines say. Requests, refusals and evictions are the API server's own counters,
CPU and memory are read from /proc.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from bench.first_heal import (
    KUBENODE,
    flip,
    is_ready,
    node_list,
    percentiles,
    program,
    rule,
    say,
    wait_ready,
    wide_limits,
)
from bench.processes import usage
from support.control_plane import ControlPlane
from support.daemons import free_port

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect

CONDITION = "BenchDrain"
NAMESPACE, BUDGET_EVERY = "default", 20
LIMIT = 600.0
OURS = ("pods/eviction", "remedyoperationjobs", "remedyoperationjobs/status", "permits",
        "permits/status", "events", "noderemediers/status",
        "defenderpolicies/status", "hostprobes")  # fmt: skip


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str


class _Timeline(msgspec.Struct, rename="camel"):
    permit_granted: datetime | None = None
    cordoned: datetime | None = None
    drained: datetime | None = None


class _Hold(msgspec.Struct):
    reason: str = ""


class _Status(msgspec.Struct):
    timeline: _Timeline = msgspec.field(default_factory=_Timeline)
    hold: _Hold | None = None
    phase: str = ""


class _Job(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


class _WatchEvent(msgspec.Struct):
    object: _Job


class Jobs:
    """The newest word of every job."""

    def __init__(self) -> None:
        self.now: dict[str, _Status] = {}

    async def watch(self, kube: Kube) -> None:
        decode = msgspec.json.Decoder(_WatchEvent).decode
        path = paths.custom("remedyoperationjobs")
        version = (await kube.get(path))["metadata"]["resourceVersion"]
        while True:
            query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": 300}
            answer = await kube.open("GET", path, query, timeout=320)
            while line := await answer.content.readline():
                event = decode(line)
                version = event.object.metadata.resource_version
                self.now[event.object.metadata.name] = event.object.status

    def drained(self) -> list[datetime]:
        return [s.timeline.drained for s in self.now.values() if s.timeline.drained is not None]


def counters(cp: ControlPlane) -> Counter[str]:
    """`VERB resource/subresource code` of every request so far, and what was turned away."""
    found: Counter[str] = Counter()
    for line in cp.metrics().splitlines():
        name, brace, rest = line.partition("{")
        if not brace or name not in (
            "apiserver_request_total",
            "apiserver_flowcontrol_rejected_requests_total",
        ):
            continue
        labels, value = rest.rsplit("} ", 1)
        pairs = dict(p.split("=", 1) for p in labels.replace('"', "").split(",") if "=" in p)
        if name != "apiserver_request_total":
            found["rejected"] += int(float(value))
            continue
        what = pairs.get("resource", "") + (f"/{s}" if (s := pairs.get("subresource")) else "")
        found[f"{pairs.get('verb', '')} {what} {pairs.get('code', '')}"] += int(float(value))
    return found


def per_job(made: Counter[str], jobs: int) -> dict[str, float]:
    """Requests that only the product makes here, by verb and resource; watches left out."""
    found: Counter[str] = Counter()
    for key, count in made.items():
        verb, _, rest = key.partition(" ")
        what = rest.rpartition(" ")[0]
        mine = what in OURS or (what, verb) in (
            ("nodes", "GET"),
            ("nodes", "PATCH"),
            ("pods", "LIST"),
            ("pods", "GET"),
        )
        if mine and verb != "WATCH":
            found[f"{verb} {what}"] += count
    return {k: round(v / jobs, 2) for k, v in sorted(found.items()) if v / jobs >= 0.01}


def pods_of(nodes: int, hit: int) -> Iterator[tuple[str, int]]:
    """How many pods stand on each node; those that are drained have 11.25 of 20 in the mean."""
    for i in range(nodes):
        much = i % 4 == 0
        yield f"n{i:05d}", (11 + much) if i < hit else (8 + (i % 4 != 0))


def apps_of(nodes: int) -> int:
    """So many that each has about a hundred pods."""
    return max(nodes // 10, 10)


def pod(node: str, app: int, index: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{node}-{index}",
            "labels": {"app": f"a{app}", "pod-template-hash": f"h{app}"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"a{app}",
                    "uid": f"00000000-0000-0000-0000-{app:012d}",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": False,
            "containers": [{"name": "c", "image": "none"}],
            "tolerations": [{"operator": "Exists"}],
        },
    }


async def fill(kube: Kube, nodes: int, hit: int) -> int:
    """Make all pods and wait until kwok runs them; how many stand on the nodes to be drained."""
    gate, made, moving = asyncio.Semaphore(48), 0, 0

    async def create(body: dict[str, Any]) -> None:
        async with gate:
            await kube.create(paths.pods(NAMESPACE), body, decode=len)

    for i in range(0, apps_of(nodes), BUDGET_EVERY):
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": f"a{i}"}}}
        body = {"metadata": {"name": f"a{i}"}, "spec": spec}
        await kube.create(paths.pod_disruption_budgets(NAMESPACE), body)
    async with asyncio.TaskGroup() as tasks:
        for order, (node, count) in enumerate(pods_of(nodes, hit)):
            for index in range(count):
                tasks.create_task(create(pod(node, made % apps_of(nodes), index)))
                made += 1
            moving += count if order < hit else 0
    deadline = time.monotonic() + LIMIT
    query: dict[str, str | int | None] = {
        "fieldSelector": "status.phase!=Running",
        "limit": 1,
        "resourceVersion": "0",
    }
    while (await kube.get(paths.pods(), query=query))["items"]:
        if time.monotonic() > deadline:
            raise SystemExit("kwok does not run the pods in time")
        await asyncio.sleep(1)
    return moving


def evictions(made: Counter[str]) -> int:
    return sum(v for k, v in made.items() if k.startswith("POST pods/eviction 201"))


class Window:
    """When the first and the last eviction were granted, to EVERY seconds."""

    EVERY = 3.0

    def __init__(self, cp: ControlPlane, before: Counter[str]) -> None:
        self._cp, self._before, self._known = cp, evictions(before), 0
        self.times: list[float] = []

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(self.EVERY)
            now = evictions(await asyncio.to_thread(counters, self._cp)) - self._before
            if now > self._known:
                self._known = now
                self.times.append(time.monotonic())

    @property
    def seconds(self) -> float | None:
        return round(self.times[-1] - self.times[0] + self.EVERY, 1) if self.times else None


async def measure(cp: ControlPlane, nodes: int, hit: list[str], pid: int, moving: int) -> Any:
    kube = Kube(connect(str(cp.kubeconfig)), rate=10_000, burst=10_000)
    jobs, gate = Jobs(), asyncio.Semaphore(64)
    apiserver = cp.part("kube-apiserver").pid
    peak = 0
    try:
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(jobs.watch(kube))
            before, used, server = counters(cp), usage(pid), usage(apiserver)
            began, since = time.time(), time.monotonic()
            window = Window(cp, before)
            watching = tasks.create_task(window.watch())

            async def patch(node: str) -> None:
                async with gate:
                    await flip(kube, node, CONDITION, "True")

            for node in hit:
                tasks.create_task(patch(node))
            while len(jobs.drained()) < len(hit) and time.monotonic() < since + LIMIT:
                await asyncio.sleep(0.5)
                peak = max(peak, usage(pid).rss)
            after, spent, asked = counters(cp), usage(pid), usage(apiserver)
            work.cancel()
            watching.cancel()
        left = await left_on(kube, hit)
    finally:
        await kube.close()
    made = after - before
    drained = sorted(at.timestamp() - began for at in jobs.drained())
    lines = [s.timeline for s in jobs.now.values()]
    cordoned = [t.cordoned.timestamp() - began for t in lines if t.cordoned is not None]
    return {
        "nodes": nodes,
        "jobs": len(jobs.now),
        "podsToMove": moving,
        "podsLeft": left,
        "evictions": evictions(made),
        "evictedWithin": window.seconds,
        "allDrainedAfter": round(drained[-1], 1) if len(drained) == len(hit) else None,
        "drainedAfter": percentiles(drained) if len(drained) > 1 else None,
        "allCordonedAfter": round(max(cordoned), 1) if cordoned else None,
        "refused": {
            "byFairness": made["rejected"],
            "429": sum(v for k, v in made.items() if k.endswith(" 429")),
            "5xx": sum(v for k, v in made.items() if k.rpartition(" ")[2].startswith("5")),
            "409": sum(v for k, v in made.items() if k.endswith(" 409")),
        },
        "requestsPerJob": per_job(made, len(hit)),
        "requestsPerJobInAll": round(sum(per_job(made, len(hit)).values()), 1),
        "cpuSeconds": round(spent.cpu - used.cpu, 1),
        "cpuMsPerJob": round((spent.cpu - used.cpu) / len(hit) * 1000, 1),
        "apiserverCpuSeconds": round(asked.cpu - server.cpu, 1),
        "rssMBPeak": round(peak / 1e6, 1),
        "holds": dict(Counter(s.hold.reason for s in jobs.now.values() if s.hold is not None)),
    }


async def left_on(kube: Kube, hit: list[str]) -> int:
    chosen = set(hit)
    found = await kube.call("GET", paths.pods(), {"resourceVersion": "0"}, timeout=120)
    return sum(pod["spec"].get("nodeName") in chosen for pod in found["items"])


def no_limits() -> dict[str, Any]:
    """Half of a fleet at once is what every limit and breaker is there to stop: here none does."""
    policy = wide_limits()
    policy["spec"]["breaker"] = {"trip": {"minNodes": 1_000_000}}
    policy["spec"]["workload"] = {"maxDisplacedPending": 1_000_000}
    return policy


def a_rule() -> dict[str, Any]:
    body = rule("bench-drain", "Enforce", CONDITION)
    body["spec"]["ladder"] = [
        {
            "name": "drain",
            "steps": [{"cordon": {}}, {"migrate": {"timeout": "30m"}}],
            "verify": {"for": "1s", "settle": "0s", "timeout": "1h"},
        }
    ]
    return body


async def filled(cp: ControlPlane, nodes: int, hit: int) -> int:
    kube = Kube(connect(str(cp.kubeconfig)), rate=10_000, burst=10_000, timeout=120)
    try:
        return await fill(kube, nodes, hit)
    finally:
        await kube.close()


def run(nodes: int) -> dict[str, Any]:
    controllers = "--controllers=disruption-controller,serviceaccount-controller"
    with (
        tempfile.TemporaryDirectory(prefix="kubenode-bench-") as temporary,
        ControlPlane(kwok=True, scheduler=False, controller_args=[controllers]) as cp,
    ):
        kubeconfig, hit = str(cp.kubeconfig), nodes // 2
        install = [KUBENODE, "install", "--kubeconfig", kubeconfig]
        subprocess.run(install, check=True, stdout=sys.stderr)
        cp.kubectl("apply", "-f", "-", stdin=json.dumps(no_limits()))
        cp.kubectl("create", "-f", "-", stdin=json.dumps(node_list(nodes)), timeout=300)
        wait_ready(cp, nodes, 300)
        say(f"{nodes} nodes are Ready")
        moving = asyncio.run(filled(cp, nodes, hit))
        say(f"{moving} pods stand on the {hit} nodes to be drained")
        cp.kubectl("apply", "-f", "-", stdin=json.dumps(a_rule()))
        port, log = free_port(), Path(temporary) / "kubenode.log"
        # A machine that cannot keep up must show as late, not as a lease that was lost.
        ours = [KUBENODE, "run", "all", "--no-lease", "--kubeconfig", kubeconfig]
        ours += ["--health-port", str(port)]
        with program(ours, partial(is_ready, port), log) as operator:
            names = [f"n{i:05d}" for i in range(hit)]
            found: dict[str, Any] = asyncio.run(measure(cp, nodes, names, operator.pid, moving))
            if operator.poll() is not None:
                raise SystemExit(f"kubenode ended with {operator.returncode}: {found}")
            say(f"drain: {found}")
            return found


def options(parser: argparse.ArgumentParser) -> None:
    flags = parser.add_argument_group("drain")
    flags.add_argument("--drain-nodes", type=int, nargs="+", default=[200])


def figures(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """One entry for each size of `--drain-nodes`; half of the nodes are drained."""
    return [run(nodes) for nodes in chosen.drain_nodes]
