"""Runs the detectors of the host that it is started on, without any API server: each change of a
condition and each Event is a line of JSON on standard output.

    python3 -P watching_host.py /etc/kubenode/agent.toml
"""

import asyncio
import json
import os
import sys

from agent import settings
from agent.detectors import ConditionReport, Detector, Report
from agent.detectors.assembly import detectors
from agent.host import BOOT_ID_FILE
from agent.host.files import HostRoot
from agent.host.systemd import SystemdHost
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.process import run_until_signal


class Printed:
    """Implements agent.detectors.Sink."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[str, str]] = {}

    def report(self, report: Report) -> None:
        line = {"reason": report.reason, "message": report.message}
        if isinstance(report, ConditionReport):
            now = (report.status.value, report.reason)
            if self._told.get(report.type) == now:
                return
            self._told[report.type] = now
            line |= {"type": report.type, "status": report.status.value}
        print(json.dumps(line), flush=True)  # noqa: T201


class Watched:
    """A Part for a detector."""

    def __init__(self, detector: Detector, sink: Printed) -> None:
        self.name, self._detector, self._sink = "watched", detector, sink

    async def run(self) -> None:
        await self._detector.run(self._sink)


async def main(config: str) -> None:
    loaded = settings.load({}, config)
    sink = Printed()
    root = HostRoot(os.environ.get("KUBENODE_AGENT_HOST_ROOT", "/"))
    host = SystemdHost(root.bus_address(), str(root.path(BOOT_ID_FILE)))
    found = detectors(loaded.detectors, host, SystemClock(), root.root, loaded.state_dir)
    await run_until_signal([Watched(detector, sink) for detector in found])


asyncio.run(main(sys.argv[1]))
