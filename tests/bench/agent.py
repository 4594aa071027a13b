"""The agent as a process of this machine with its detectors on: memory, idle CPU, and how long a
line of a log takes to be a condition at a real kube-apiserver.

The log is a file in syslog form, read by a monitor in node-problem-detector's form; the condition
counts from the write of the line to the watch event of another client.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from support.agent_jobs import GROUP, install, user
from support.control_plane import ControlPlane

from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport

NODE = "bench-1"
SETTLE_SECONDS = 15.0
SPACING = 2.1
"""The publisher writes one patch in two seconds once its burst is spent."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--agent-lines", type=int, default=30, metavar="N")
    parser.add_argument("--agent-idle-seconds", type=float, default=60.0, metavar="S")


def figures(chosen: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, ControlPlane(controllers=False) as cp:
        install(cp)
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        cp.kubectl("create", "-f", "-", stdin=json.dumps(node))
        log = Path(folder) / "syslog"
        log.write_text("")
        with _agent(cp, Path(folder), chosen.agent_lines) as pid:
            time.sleep(SETTLE_SECONDS)
            began, ticks = time.monotonic(), _ticks(pid)
            time.sleep(chosen.agent_idle_seconds)
            idle = (_ticks(pid) - ticks) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - began)
            took = asyncio.run(_lines(cp, log, chosen.agent_lines))
            rss = _rss_kb(pid)
    took.sort()
    return {
        "rss_mb": round(rss / 1024, 1),
        "idle_cpu_share": round(idle, 5),
        "lines": len(took),
        "line_to_condition_ms_p50": round(statistics.median(took) * 1000, 1),
        "line_to_condition_ms_p99": round(took[int(len(took) * 0.99)] * 1000, 1),
        "line_to_condition_ms_max": round(took[-1] * 1000, 1),
    }


def _monitor(log: Path, count: int) -> dict[str, Any]:
    names = [f"Bench{number}" for number in range(count)]
    return {
        "plugin": "filelog",
        "pluginConfig": {
            "timestamp": "^.{15}",
            "message": "kernel: \\[.*\\] (.*)",
            "timestampFormat": "Jan _2 15:04:05",
        },
        "logPath": str(log),
        "lookback": "5m",
        "bufferSize": 10,
        "source": "bench-monitor",
        "conditions": [{"type": n, "reason": f"{n}Fine", "message": "fine"} for n in names],
        "rules": [
            {"type": "permanent", "condition": n, "reason": f"{n}Hung", "pattern": f"task {n} hung"}
            for n in names
        ],
    }


@contextmanager
def _agent(cp: ControlPlane, folder: Path, lines: int) -> Iterator[int]:
    """The process; its log goes where it was started from."""
    identity = cp.issue_client_cert(user(NODE), [GROUP])
    monitor = folder / "bench-monitor.json"
    monitor.write_text(json.dumps(_monitor(folder / "syslog", lines)))
    settings = {
        "node": NODE,
        "server": cp.server,
        "ca_file": str(cp.ca_file),
        "cert_file": str(identity.cert_file),
        "key_file": str(identity.key_file),
        "state_dir": str(folder / "state"),
        "log_level": "error",
    }
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    text += f"[detectors]\nnpd_configs = [{json.dumps(str(monitor))}]\n"
    (folder / "agent.toml").write_text(text)
    given = [sys.executable, "-m", "agent", str(folder / "agent.toml")]
    process = subprocess.Popen(given)
    try:
        yield process.pid
        assert process.poll() is None, "the agent ended"
    finally:
        process.terminate()
        process.wait(30)


async def _lines(cp: ControlPlane, log: Path, count: int) -> list[float]:
    """Seconds from each line to its condition."""
    admin = cp.issue_client_cert("bench", ["system:masters"])
    files = str(cp.ca_file), str(admin.cert_file), str(admin.key_file)
    kube = Kube(PlainTransport(cp.server, *files))
    written: dict[str, float] = {}
    took: list[float] = []
    try:
        query = {"watch": "true", "fieldSelector": f"metadata.name={NODE}"}
        async with (
            asyncio.timeout(60 + count * SPACING * 2),
            await kube.open("GET", "/api/v1/nodes", query, timeout=3600) as watch,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(_write(log, count, written))
            async for line in watch.content:
                now = time.monotonic()
                status = msgspec.json.decode(line)["object"]["status"]
                for condition in status.get("conditions", []):
                    if condition["status"] == "True" and condition["type"] in written:
                        took.append(now - written.pop(condition["type"]))
                if len(took) == count:
                    return took
    finally:
        await kube.close()
    raise AssertionError("the watch ended first")


async def _write(log: Path, count: int, written: dict[str, float]) -> None:
    for number in range(count):
        name = f"Bench{number}"
        stamp = SystemClock().now().astimezone().strftime("%b %e %H:%M:%S")
        with log.open("a") as file:
            written[name] = time.monotonic()
            file.write(f"{stamp} host kernel: [ 1.0] task {name} hung\n")
        await asyncio.sleep(SPACING)


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _rss_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])
