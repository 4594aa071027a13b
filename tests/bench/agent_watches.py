"""The watches of many agents, from one process: each on its own AgentAssignment, by name.

    python -m bench.agent_watches SERVER CA CERT KEY COUNT

Tells on its standard output when all are open. One that ends is opened again, after up to ten
seconds as agents do it. Ends with its standard input, and tells how many were open then.
"""

import asyncio
import json
import random
import resource
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
from bench.processes import usage
from support.control_plane import ControlPlane

from kubenode.runtime.kube.paths import custom

ASSIGNMENTS = custom("agentassignments")
AT_ONCE = 50
"""Handshakes under way: each costs both sides some milliseconds."""
SPREAD_SECONDS = 10.0
WATCH_SECONDS = 300


class AgentWatches:
    """The process, seen from the benchmark."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @classmethod
    @contextmanager
    def open(cls, cp: ControlPlane, count: int, names: list[str]) -> Iterator["AgentWatches"]:
        """All are open when the block begins."""
        words = [cp.server, cp.ca_file, cp.admin.cert_file, cp.admin.key_file, count]
        command = [sys.executable, "-m", "bench.agent_watches", *map(str, words)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write(json.dumps(names[:count]) + "\n")
                process.stdin.flush()
                if not process.stdout.readline():
                    raise SystemExit("the watches of agents could not be opened")
                yield cls(process)
            finally:
                process.terminate()

    def told(self) -> dict[str, Any]:
        """How many are open now, opened again, and lines read."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return {**found, "rssMB": round(usage(self._process.pid).rss / 1e6)}


def many_files() -> None:
    """As many open files as this process and what it starts may have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@dataclass
class _Agents:
    session: aiohttp.ClientSession
    gate: asyncio.Semaphore
    version: str
    open: int = 0
    opened: int = 0
    lines: int = 0

    async def follow(self, name: str) -> None:
        while True:
            with suppress(aiohttp.ClientError, OSError, TimeoutError):
                await self._watch(name)
            await asyncio.sleep(random.uniform(0, SPREAD_SECONDS))

    async def _watch(self, name: str) -> None:
        query = {
            "watch": "1",
            "fieldSelector": f"metadata.name={name}",
            "resourceVersion": self.version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(WATCH_SECONDS * random.uniform(0.8, 1.0))),
        }
        endless = aiohttp.ClientTimeout(total=None)
        async with self.gate:
            response = await self.session.get(ASSIGNMENTS, params=query, timeout=endless)
        async with response:
            response.raise_for_status()
            self.open, self.opened = self.open + 1, self.opened + 1
            try:
                async for _ in response.content:
                    self.lines += 1
            finally:
                self.open -= 1


async def _main(server: str, ca: str, cert: str, key: str, count: int) -> None:
    many_files()
    tls = ssl.create_default_context(cafile=ca)
    tls.load_cert_chain(cert, key)
    names = json.loads(sys.stdin.readline())
    connector = aiohttp.TCPConnector(ssl=tls, limit=0)
    async with aiohttp.ClientSession(server, connector=connector) as session:
        # From any version: a server that was restarted has forgotten those of before.
        agents = _Agents(session, asyncio.Semaphore(AT_ONCE), "0")
        async with asyncio.TaskGroup() as tasks:
            watches = [tasks.create_task(agents.follow(name)) for name in names]
            while agents.open < count:  # noqa: ASYNC110  a bench may look
                await asyncio.sleep(0.1)
            print("open", flush=True)  # noqa: T201  the benchmark waits for it
            while await asyncio.to_thread(sys.stdin.readline):
                told = {
                    "open": agents.open,
                    "openedAgain": agents.opened - agents.open,
                    "lines": agents.lines,
                }
                print(json.dumps(told), flush=True)  # noqa: T201
            for watch in watches:
                watch.cancel()


if __name__ == "__main__":
    given = sys.argv[1:]
    asyncio.run(_main(given[0], given[1], given[2], given[3], int(given[4])))
