"""What the kernel of this machine wakes us for."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from support.clock import FakeClock
from support.running import until
from support.watched import Heard

from agent.detectors import ReportedStatus
from agent.detectors.checks.assembly import MountDetector
from agent.detectors.checks.detector import Turns
from agent.detectors.checks.host.pressure import Pressure, PressureDetector, arm

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as the agent has it"),
]
QUICK = "{kind} 20000 2000000"
"""Microseconds: reached at once when more work than processors."""


def looked(heard: Heard, kind: str) -> bool:
    return any(status is ReportedStatus.FALSE for status, _ in heard.history(kind))


async def command(*argv: str | Path) -> None:
    process = await asyncio.create_subprocess_exec(*argv)
    assert await process.wait() == 0


@pytest.fixture
def busy() -> Iterator[None]:
    """More work than this machine has processors, so that some of it waits."""
    spin = [sys.executable, "-c", "while True: pass"]
    many = [subprocess.Popen(spin) for _ in range(2 * (os.cpu_count() or 1) + 1)]
    yield
    for one in many:
        one.kill()
        one.wait()


@pytest.mark.skipif(not Path("/proc/pressure/cpu").exists(), reason="a kernel without PSI")
@pytest.mark.usefixtures("busy")
async def test_stalling_tasks_wake_us_by_a_trigger() -> None:
    woken = asyncio.Event()
    trigger = arm(Pressure("cpu", 50), woken, QUICK)
    if trigger is None:
        pytest.skip("this kernel takes no triggers from us")
    try:
        async with asyncio.timeout(30):
            for _ in range(2):
                await woken.wait()
                woken.clear()
    finally:
        trigger.close()


async def test_where_triggers_are_refused_pressure_is_looked_at_in_intervals(
    tmp_path: Path,
) -> None:
    file = tmp_path / "proc/pressure/memory"
    file.parent.mkdir(parents=True)
    file.touch()  # of a disk: it wakes nobody
    clock, heard = FakeClock(), Heard()
    detector = PressureDetector(Pressure("memory", 60, str(tmp_path)), Turns(clock))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(detector.run(heard))
        await until(lambda: bool(heard.events), what="a look that finds nothing")
        file.write_text("full avg10=0.00 avg60=1.00 avg300=0.00 total=1\n")
        await clock.advance(timedelta(seconds=40))
        await until(partial(looked, heard, "MemoryContentionPressure"), what="a look")
        running.cancel()


async def test_a_mount_wakes_us(tmp_path: Path) -> None:
    heard, place = Heard(), tmp_path / "mounted"
    place.mkdir()
    detector = MountDetector(Turns(FakeClock()), 3600.0)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(detector.run(heard))
        await until(partial(looked, heard, "DiskReadonly"), what="a look")
        await command("mount", "-t", "tmpfs", "tmpfs", place)
        try:
            await until(detector.woken.is_set, what="the mount to be noticed")
        finally:
            await command("umount", place)
        running.cancel()
