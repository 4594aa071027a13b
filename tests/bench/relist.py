"""Memory of one cache of Nodes by a list of all of them anew.

The embedded API server is a process of its own (bench.flood_server), and so is the informer, which
shares Nodes' words as the product does and gives free memory back once it is full. Of the Nodes
some changed between two lists, as they do while an API server is away.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.processes import most_memory
from support.memory import resident

from kubenode.runtime.garbage import give_back, keep_apart
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, structs
from kubenode.runtime.kube.official import connect

LISTS = 3
SLICE_SECONDS = 2.0


def options(parser: argparse.ArgumentParser) -> None:
    flags = parser.add_argument_group("relist")
    flags.add_argument("--relist-nodes", type=int, default=2000)
    flags.add_argument("--relist-changed", type=float, default=0.3, help="share of the Nodes")


def figures(chosen: argparse.Namespace) -> dict[str, Any]:
    """Megabytes of the process with the cache, before and after each list anew, and at most."""
    with tempfile.TemporaryDirectory(prefix="kubenode-bench-") as folder:
        config = Path(folder) / "kubeconfig"
        nodes = str(chosen.relist_nodes)
        command = [sys.executable, "-m", "bench.flood_server", nodes, str(config), "Bench"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                assert server.stdin is not None and server.stdout is not None
                assert json.loads(server.stdout.readline())["ready"]
                return _measured(server, str(config), chosen.relist_nodes, chosen.relist_changed)
            finally:
                server.terminate()


def _measured(
    server: subprocess.Popen[str], config: str, nodes: int, changed: float
) -> dict[str, Any]:
    assert server.stdin is not None and server.stdout is not None
    command = [sys.executable, "-m", "bench.relist", config]
    found: list[dict[str, float]] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as cache:
        assert cache.stdin is not None and cache.stdout is not None
        for number in range(LISTS + 1):
            if number:
                rate = nodes * changed / SLICE_SECONDS
                server.stdin.write(f"{rate} {SLICE_SECONDS}\n")
                server.stdin.flush()
                server.stdout.readline()
            cache.stdin.write("\n")
            cache.stdin.flush()
            found.append(json.loads(cache.stdout.readline()))
        cache.stdin.close()
    return {"nodes": nodes, "changed": changed, "lists": found}


async def _cache(config: str) -> None:
    """A list for each line of stdin, and a line of figures for each."""
    keep_apart()
    kube = Kube(connect(config), rate=1000, burst=1000)
    informer = Informer(kube, paths.nodes(), structs(Node))
    before = resident()
    while await asyncio.to_thread(sys.stdin.readline):
        began, busy = time.monotonic(), time.process_time()
        await informer._list()
        told = {
            "objects": len(informer.cache),
            "seconds": round(time.monotonic() - began, 2),
            "cpuSeconds": round(time.process_time() - busy, 2),
            "rssMB": round(resident() / 1e6, 1),
            "beforeMB": round(before / 1e6, 1),
            "mostMB": round(most_memory(_pid()) / 1e6, 1),
        }
        if informer.stats.lists == 1:
            give_back()
            told["rssMB"] = round(resident() / 1e6, 1)
        before = resident()
        print(json.dumps(told), flush=True)  # noqa: T201  the benchmark waits for it
    await kube.close()


def _pid() -> int:
    return int(Path("/proc/self").resolve().name)


if __name__ == "__main__":
    asyncio.run(_cache(sys.argv[1]))
