"""KillProcess: ends one process that is named by PID, start time, and program or unit."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.actions.repair import STANDS, Repair, params_of, ports_of
from agent.host import Contraindicated
from agent.host.ports import Process
from agent.outcome import StepOutcome, done, failed
from agent.request import StepRequest

if TYPE_CHECKING:
    from agent.actions import Bench

POLL_SECONDS = 0.1
SPARED = frozenset(
    {
        *("init.scope", "dbus.service", "dbus-broker.service", "systemd-journald.service"),
        *("systemd-logind.service", "systemd-udevd.service", "kubenode-agent.service"),
    }
)
"""Units that repairs and their reports need; RestartUnit can restart them."""


class KillProcess(Repair):
    name = "KillProcess"

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        params = params_of(request)
        pid, start = int(params["pid"]), int(params["startTime"])
        process = await ports_of(bench).processes.find(pid)
        before = {"pid": str(pid), "startTime": str(start), "signal": params.get("signal", "TERM")}
        if process is None or process.start_time != start:
            return before  # it has ended; a new process with its PID is not touched
        if why := _spared(process, params):
            raise Contraindicated(f"KillProcess: process {pid} {why}")
        return before

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        processes, pid = ports_of(bench).processes, int(before["pid"])
        end = bench.clock.monotonic() + limit
        target = await self._same(before, bench)
        if target is None:
            return done(f"KillProcess: process {pid} had ended before")
        await processes.signal(target, before["signal"])
        while (still := await self._same(before, bench)) is not None:
            if still.state == "Z":
                return done(f"KillProcess: process {pid} has ended, its parent has not noticed yet")
            if bench.clock.monotonic() >= end:
                return failed(_stays(still, before["signal"], limit))
            await bench.clock.sleep(POLL_SECONDS)
        return done(f"KillProcess: process {pid} has ended")

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome | None:
        process = await self._same(before, bench)
        if process is None or process.state == "Z":
            return done(f"KillProcess: process {before['pid']} has ended{STANDS}")
        return None

    async def _same(self, before: Mapping[str, str], bench: "Bench") -> Process | None:
        process = await ports_of(bench).processes.find(int(before["pid"]))
        return process if process and process.start_time == int(before["startTime"]) else None


def _spared(process: Process, params: Mapping[str, str]) -> str:
    """Describe why the process must not be ended; "" if it may be."""
    if process.pid == 1 or process.pid == os.getpid() or process.unit in SPARED:
        return f"is one that the host cannot do without ({process.unit or 'PID 1'})"
    if process.state != "Z" and not process.exe and not process.unit:
        return "is a thread of the kernel"
    for name, is_now in (("exe", process.exe), ("unit", process.unit)):
        if name in params and params[name] != is_now:
            return f"has {name} {is_now or 'none'}, not {params[name]}"
    return ""


def _stays(process: Process, signal: str, limit: float) -> str:
    text = f"KillProcess: process {process.pid} is still there {limit:.0f} s after SIG{signal}"
    if process.state == "D":
        return f"{text}: the kernel holds it (state D), which only a boot ends"
    return f"{text} (state {process.state})"
