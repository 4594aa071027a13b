"""Many more Node events than a fleet ever makes: does one remedy process keep up, and still decide?

Method. The embedded API server in a process of its own (bench.flood_server) with Nodes as large as
real ones changes them at a given rate, by heartbeats; a real kube-apiserver on the same cores could
not write so fast. The product is `kubenode run remedy`. One node fails half way, and another one by
the last change of all: its job says that everything before was read. What a core takes is events by
the product's own processor time, which other load does not change.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import fleet
from bench.first_heal import Jobs, say
from bench.product import EVENTS, RELISTS, Product
from support.running import running

from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect

CONDITION = "BenchFlood"
SECONDS = 10.0
FIRST, LAST = fleet.names(2)
PATIENCE = 120.0


@contextmanager
def served(nodes: int, kubeconfig: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "bench.flood_server", str(nodes), str(kubeconfig), CONDITION]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as server:
        try:
            said(server)
            yield server
        finally:
            server.kill()


def said(server: "subprocess.Popen[str]") -> dict[str, Any]:
    """Its next answer."""
    assert server.stdout is not None
    line = server.stdout.readline()
    if not line:
        raise SystemExit("the server ended")
    found: dict[str, Any] = json.loads(line)
    return found


async def flooded(
    server: "subprocess.Popen[str]", kube: Kube, product: Product, rate: float
) -> dict[str, Any]:
    jobs, before = Jobs(), product.usage()
    seen, lists = (product.counted(each, resource="nodes") for each in (EVENTS, RELISTS))
    async with running(jobs.watch(kube)):
        await jobs.following.wait()
        assert server.stdin is not None
        server.stdin.write(f"{rate} {SECONDS}\n")
        server.stdin.flush()
        told = await asyncio.to_thread(said, server)
        await jobs.wait_for([FIRST, LAST], PATIENCE)
    spent = product.spent(before, told["began"])
    read = product.counted(EVENTS, resource="nodes") - seen
    lasted = told["ended"] - told["began"]
    return {
        "askedPerSecond": rate,
        "eventsPerSecond": round(told["sent"] / lasted),
        "faultHalfWayToJobSeconds": round(jobs.seen[FIRST] - told["failed"], 3),
        "lastFaultToJobSeconds": round(jobs.seen[LAST] - told["ended"], 3),
        "eventsOfACorePerSecond": round(read / spent["cpuSeconds"]),
        "listsAgain": product.counted(RELISTS, resource="nodes") - lists,
        **spent,
    }


async def measure(server: "subprocess.Popen[str]", kubeconfig: Path, rate: float) -> dict[str, Any]:
    kube = Kube(connect(str(kubeconfig)), rate=10_000, burst=10_000)
    arguments = ["run", "remedy", "--no-lease", "--kubeconfig", str(kubeconfig)]
    product = Product(kubeconfig.parent, "remedy", *arguments)
    try:
        with product.running():
            return await flooded(server, kube, product, rate)
    finally:
        await kube.close()


def run(nodes: int, rate: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="kubenode-bench-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        with served(nodes, kubeconfig) as server:
            found = {"nodes": nodes, **asyncio.run(measure(server, kubeconfig, rate))}
    say(f"flood: {found}")
    return found


def options(parser: argparse.ArgumentParser) -> None:
    flags = parser.add_argument_group("flood")
    flags.add_argument("--flood-nodes", type=int, nargs="+", default=[1000])
    flags.add_argument("--flood-rate", type=float, default=5000.0, help="Node events a second")


def figures(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """One entry for each size of `--flood-nodes`."""
    return [run(nodes, chosen.flood_rate) for nodes in chosen.flood_nodes]
