"""The log detector: lines per second of the watcher on one core, and from a line to its report.

`lines`     by processor time: lines that mean nothing, a flood of Events, one of a condition
`latency`   a record written into a pipe in the form of /dev/kmsg until the sink has its report
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.detectors import EventReport, Report
from agent.detectors.logs.assembly import build
from agent.detectors.logs.line import KERNEL, Line
from agent.detectors.logs.pack import our_program
from agent.detectors.logs.settings import LogSettings
from agent.detectors.logs.watch import begin, watch
from kubenode.runtime.clock import SystemClock

NOW = datetime(2026, 1, 10, tzinfo=UTC)
TEXTS = {
    "of_no_meaning": [
        "cni0: port 1(veth7457e840) entered blocking state",
        "audit: type=1400 audit(1712.3:7): apparmor=\"STATUS\" operation=\"profile_load\"",
        "IPv6: ADDRCONF(NETDEV_CHANGE): veth7457e840: link becomes ready",
    ],
    "events": ["NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=python"],
    "condition": ["EXT4-fs (sda1): Remounting filesystem read-only"],
}  # fmt: skip


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log-lines", type=int, default=100_000)
    parser.add_argument("--log-records", type=int, default=500)


def figures(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "lines_per_second": {
            name: round(_rate(texts, arguments.log_lines)) for name, texts in TEXTS.items()
        },
        "line_to_report_ms": asyncio.run(_latency(arguments.log_records)),
    }


def _rate(texts: list[str], many: int) -> float:
    program = our_program()
    state, _ = begin(program, NOW)
    lines = [Line(texts[n % len(texts)], NOW, KERNEL) for n in range(many)]
    begun = time.thread_time()
    for line in lines:
        state, _ = watch(program, state, line, NOW)
    return many / (time.thread_time() - begun)


class _Sink:
    """Implements agent.detectors.Sink."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()
        self.at = 0.0

    def report(self, report: Report) -> None:
        if isinstance(report, EventReport):
            self.at = time.perf_counter()
            self.heard.set()


async def _latency(many: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        device = Path(folder, "kmsg")
        os.mkfifo(device)
        end = os.open(device, os.O_RDWR | os.O_NONBLOCK)
        given = LogSettings(kernel="kmsg", kmsg=str(device), journal=False)
        detector, sink = build({}, given, SystemClock()), _Sink()
        task = asyncio.ensure_future(detector.run(sink))
        took = []
        for number in range(many):
            sink.heard.clear()
            text = f"NVRM: Xid (PCI:0000:3b:00): {number % 100}, pid=1, name=python"
            now = int(time.monotonic() * 1e6)
            begun = time.perf_counter()
            os.write(end, f"3,{number},{now},-;{text}\n".encode())
            await sink.heard.wait()
            took.append((sink.at - begun) * 1000)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        os.close(end)
    took.sort()
    return {
        "p50": round(statistics.median(took), 3),
        "p99": round(took[int(len(took) * 0.99)], 3),
        "most": round(took[-1], 3),
    }
