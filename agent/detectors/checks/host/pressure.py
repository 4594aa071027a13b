"""Work that stalls on memory, I/O or CPU, from the kernel's pressure stall information.

Nothing is read while nothing stalls: a trigger wakes the check after tasks stalled for a part of
some seconds. From then on it reads the share of the last minute until it is low again. Source: the
kernel's Documentation/accounting/psi.rst. Limits: systemd-oomd's default for memory (60 %).
"""

import asyncio
import logging
import os
from collections.abc import Mapping

from agent.detectors import Sink
from agent.detectors.checks import Finding, Findings
from agent.detectors.checks.detector import CheckDetector, Reading, Turns
from agent.detectors.checks.steady import is_exceeded
from agent.detectors.checks.wakeups import Waking
from agent.host.files import HostRoot
from kubenode.runtime.clock import wait

log = logging.getLogger(__name__)

NAMES = {
    "memory": ("MemoryContentionPressure", "full"),
    "io": ("DiskContentionPressure", "full"),
    "cpu": ("CPUContentionPressure", "some"),
}
"""Condition by resource, as KEP-4205 names it, and the line that counts.

All tasks at once never stall on CPU, so for it the line "some" counts.
"""
TRIGGER = "{kind} 1000000 10000000"
"""Microseconds of stall, and of the window.

10 s is the longest window that the kernel takes. A window that is a multiple of 2 s needs no
privilege.
"""
WHILE_HIGH, FALLBACK = 10.0, 30.0
"""Seconds between two checks: while tasks stall, and where the kernel refuses triggers."""
CLEAR = 0.5
"""Share of the limit below which the fault is over."""


class Pressure:
    """Pressure of one resource. limit: percent of the last minute."""

    def __init__(self, resource: str, limit: float, root: str = "/") -> None:
        self.condition, self.kind = NAMES[resource]
        self.path = HostRoot(root).path(f"proc/pressure/{resource}")
        self._resource, self._limit = resource, limit
        self.share = 0.0
        self.faulty = False

    def inspect(self) -> Findings:
        """Check the pressure. Raises OSError if the kernel has no pressure information."""
        self.share = average(self.path.read_text(encoding="ascii"), self.kind)
        self.faulty = is_exceeded(self.share, self._limit, self.faulty, self._limit * (1 - CLEAR))
        return {self.condition: judge(self._resource, self.faulty, self.share, self._limit)}

    @property
    def quiet(self) -> bool:
        """Return whether nothing needs to be read until the trigger wakes the check."""
        return not self.faulty and self.share < self._limit * CLEAR / 2


def judge(resource: str, faulty: bool, share: float, limit: float) -> Finding:
    name = {"memory": "Memory", "io": "Disk", "cpu": "CPU"}[resource]
    if faulty:
        message = f"tasks stood still for want of {resource} for {share:.0f} % of the last minute"
        return Finding(True, f"{name}HasContention", f"{message}; limit {limit:g} %")
    message = f"tasks stand still for want of {resource} for less than {limit:g} % of a minute"
    return Finding(False, f"{name}HasNoContention", message)


def average(text: str, kind: str) -> float:
    """Return the percentage for the last minute. Raises OSError if the file has none."""
    for line in text.splitlines():
        columns = line.split()
        if columns[:1] == [kind]:
            fields: Mapping[str, str] = dict(word.partition("=")[::2] for word in columns[1:])
            try:
                return float(fields["avg60"])
            except (KeyError, ValueError) as error:
                raise OSError(f"pressure {line!r} has no avg60") from error
    raise OSError(f"pressure has no line {kind!r}")


class PressureDetector:
    """Implements agent.detectors.Detector: checks when woken, and repeatedly while it is high."""

    def __init__(self, pressure: Pressure, turns: Turns) -> None:
        self._pressure, self._turns = pressure, turns
        reading = Reading(f"{pressure.path.name}-pressure", (pressure.condition,), pressure.inspect)
        self._detector = CheckDetector(reading, turns, FALLBACK)
        self.name, self.conditions = reading.name, reading.conditions

    async def run(self, sink: Sink) -> None:
        self._detector.start(sink)
        woken = asyncio.Event()
        trigger = arm(self._pressure, woken)
        try:
            while True:
                woken.clear()
                await self._turns.take(lambda: self._detector.check_once(sink))
                if trigger is None:
                    await self._turns.clock.sleep(self._turns.pause(FALLBACK))
                elif self._pressure.quiet:
                    await wait(self._turns.clock, woken, None)
                else:
                    await self._turns.clock.sleep(self._turns.pause(WHILE_HIGH))
        finally:
            if trigger is not None:
                trigger.close()


def arm(pressure: Pressure, woken: asyncio.Event, trigger: str = TRIGGER) -> Waking | None:
    """Set the kernel's trigger; return None if it refuses, so that the check runs periodically."""
    try:
        fd = os.open(pressure.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        _refused(pressure, error)
        return None
    try:
        os.write(fd, trigger.format(kind=pressure.kind).encode() + b"\0")
        return Waking(fd, woken)
    except OSError as error:
        os.close(fd)
        _refused(pressure, error)
        return None


def _refused(pressure: Pressure, error: OSError) -> None:
    extra = {"file": str(pressure.path), "error": str(error), "every_seconds": FALLBACK}
    log.info("no pressure trigger, looking at intervals", extra=extra)
