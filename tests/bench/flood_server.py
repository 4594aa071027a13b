"""An embedded API server with a fleet, whose Nodes change as often as it is told on its stdin.

    python -m bench.flood_server NODES KUBECONFIG CONDITION

A line `RATE SECONDS` changes so many Nodes a second, by heartbeats; the first node fails half way,
and the second by the last change of all. The answer is a line of JSON. Changes are made in the
store, without requests: no client is as fast.
"""

import asyncio
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from bench import fleet
from bench.first_heal import rule

from kubenode.cli.cluster import crds
from simulation.apiserver import EmbeddedApiServer

SLICE = 0.02
"""Seconds between two bundles of changes."""
HISTORY = 100_000


class Flood:
    def __init__(self, server: EmbeddedApiServer, condition: str) -> None:
        self._store, self._condition = server.store, condition
        self._nodes = [r.obj for r in server.store.collection("nodes").records()]
        self._chosen = random.Random(7)

    async def run(self, rate: float, seconds: float) -> dict[str, Any]:
        began, sent, failed = time.monotonic(), 0, 0.0
        while (now := time.monotonic()) < began + seconds:
            if not failed and now > began + seconds / 2:
                failed = self._fail(0)
            for _ in range(int((now - began) * rate) - sent):
                self._beat(self._chosen.randrange(2, len(self._nodes)))
                sent += 1
            await asyncio.sleep(SLICE)
        return {"sent": sent + 2, "began": began, "failed": failed, "ended": self._fail(1)}

    def _beat(self, number: int) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        old = self._nodes[number]
        conditions = [{**each, "lastHeartbeatTime": now} for each in old["status"]["conditions"]]
        self._commit(number, conditions)

    def _fail(self, number: int) -> float:
        """When it was done."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        reported = {"type": self._condition, "status": "True", "reason": "Bench", "message": ""}
        reported |= {"lastHeartbeatTime": now, "lastTransitionTime": now}
        self._commit(number, [*self._nodes[number]["status"]["conditions"], reported])
        return time.monotonic()

    def _commit(self, number: int, conditions: list[dict[str, str]]) -> None:
        old = self._nodes[number]
        new = {**old, "status": {**old["status"], "conditions": conditions}}
        self._nodes[number] = self._store.commit("nodes", "MODIFIED", new).obj


async def main(nodes: int, kubeconfig: Path, condition: str) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    server = EmbeddedApiServer(crds=crds(), history=HISTORY)
    server.load([fleet.node(name, number, now) for number, name in enumerate(fleet.names(nodes))])
    server.load([rule("bench", "Approve", condition)])
    async with server:
        await server.write_kubeconfig(kubeconfig)
        flood = Flood(server, condition)
        print(json.dumps({"ready": True}), flush=True)  # noqa: T201  the benchmark waits for it
        while line := await asyncio.to_thread(sys.stdin.readline):
            rate, seconds = map(float, line.split())
            print(json.dumps(await flood.run(rate, seconds)), flush=True)  # noqa: T201


asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
