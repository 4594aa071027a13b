"""What one write of a job costs the API server by the number of agents that watch.

Two ways: every agent watches RemedyOperationJobs by `spec.agent`, as agents without an
AgentAssignment do, or its own AgentAssignment by `metadata.name`. The kube-apiserver is real; its
processor time while nobody writes is taken off.
"""

import argparse
import asyncio
import os
import ssl
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec
from support.agent_jobs import JOBS, an_agent_job, install
from support.control_plane import ControlPlane

from kubenode.runtime.kube.paths import custom

ASSIGNMENTS = custom("agentassignments")
MERGE = {"Content-Type": "application/merge-patch+json"}
SETTLE_SECONDS = 3.0
OPEN_SECONDS = 120.0
AT_ONCE = 50
WAYS = {"by_agent": (JOBS, "spec.agent"), "by_name": (ASSIGNMENTS, "metadata.name")}


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--watchers", type=int, nargs="+", default=[0, 1000, 4000], metavar="N")
    parser.add_argument("--watched-writes", type=int, default=150, metavar="N")


def figures(chosen: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for way, (path, field_name) in WAYS.items():
        with ControlPlane(controllers=False, scheduler=False) as cp:
            install(cp)
            bench = _Watchers(cp, path, field_name, chosen.watched_writes)
            found[way] = asyncio.run(bench.figures(sorted(chosen.watchers)))
        sys.stderr.write(f"{way}: {found[way]}\n")
    return found


@dataclass
class _Watchers:
    cp: ControlPlane
    path: str
    field_name: str
    writes: int
    opened: int = 0
    watches: list[asyncio.Task[None]] = field(default_factory=list)

    async def figures(self, counts: list[int]) -> dict[str, Any]:
        """Milliseconds of the API server's processor time for one write, and its memory."""
        connector = aiohttp.TCPConnector(ssl=self._tls(), limit=0)
        async with aiohttp.ClientSession(self.cp.server, connector=connector) as session:
            async with session.post(JOBS, json=an_agent_job("w1", "agent-0", "a.service")) as made:
                assert made.status == 201, await made.text()
            async with session.get(self.path, params={"limit": 1}) as listed:
                version = (await listed.json())["metadata"]["resourceVersion"]
            async with asyncio.TaskGroup() as tasks:
                found = {str(n): await self._at(session, tasks, n, version) for n in counts}
                for watch in self.watches:
                    watch.cancel()
            return found

    def _tls(self) -> ssl.SSLContext:
        tls = ssl.create_default_context(cafile=str(self.cp.ca_file))
        tls.load_cert_chain(self.cp.admin.cert_file, self.cp.admin.key_file)
        return tls

    async def _at(
        self, session: aiohttp.ClientSession, tasks: asyncio.TaskGroup, count: int, version: str
    ) -> dict[str, Any]:
        while len(self.watches) < count:
            for _ in range(min(AT_ONCE, count - len(self.watches))):
                watch = self._watch(session, len(self.watches), version)
                self.watches.append(tasks.create_task(watch))
            async with asyncio.timeout(OPEN_SECONDS):
                while self.opened < len(self.watches):  # noqa: ASYNC110  a bench may look
                    await asyncio.sleep(0.02)
        await asyncio.sleep(SETTLE_SECONDS)
        began, idle = time.monotonic(), self._cpu()
        await asyncio.sleep(SETTLE_SECONDS)
        idle = (self._cpu() - idle) / (time.monotonic() - began)
        began, used = time.monotonic(), self._cpu()
        for n in range(self.writes):
            body = {"status": {"phase": "Pending", "message": f"write {n} of {count}"}}
            data = msgspec.json.encode(body)
            async with session.patch(f"{JOBS}/w1/status", data=data, headers=MERGE) as done:
                assert done.status == 200, await done.text()
        await asyncio.sleep(1.0)
        used = self._cpu() - used - idle * (time.monotonic() - began)
        return {
            "cpu_ms_per_write": round(used / self.writes * 1000, 2),
            "idle_cpu_share": round(idle, 3),
            "memory_mb": round(self._rss() / 2**20),
        }

    async def _watch(self, session: aiohttp.ClientSession, agent: int, version: str) -> None:
        query = {
            "watch": "1",
            "fieldSelector": f"{self.field_name}=agent-{agent}",
            "resourceVersion": version,
            "timeoutSeconds": "3000",
        }
        endless = aiohttp.ClientTimeout(total=None)
        async with session.get(self.path, params=query, timeout=endless) as response:
            assert response.status == 200, await response.text()
            self.opened += 1
            async for _ in response.content:
                pass

    def _cpu(self) -> float:
        with open(f"/proc/{self._pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _rss(self) -> int:
        with open(f"/proc/{self._pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    @property
    def _pid(self) -> int:
        return self.cp.part("kube-apiserver").pid
