"""Time services: chrony through chronyc, ntpd through ntpq, otherwise systemd-timesyncd."""

import csv
import re
import time
from collections.abc import Mapping
from typing import Any

from agent.host import HostError, NoSuchUnit, UnitVerb
from agent.host.ports import CHRONY, TimeState
from agent.host.real.commands import Commands, HostCommand
from agent.host.systemd import MANAGER, ROOT, SystemdHost

NTPD = ("ntp.service", "ntpd.service", "ntpsec.service")
TIMESYNCD = "systemd-timesyncd.service"
KEEPERS = (*CHRONY, *NTPD, TIMESYNCD)
SECONDS = 10.0
_UNSYNCHRONISED = "Not synchronised"
_ROOT = ("CAP_DAC_OVERRIDE", "CAP_CHOWN", "CAP_FOWNER")
"""chronyc creates a socket in a folder of chrony's own user."""


class RealTime:
    """Implements agent.host.ports.TimeService."""

    def __init__(self, host: SystemdHost, commands: Commands) -> None:
        self._host = host
        self._commands = commands

    async def state(self) -> TimeState:
        unit = await self._unit()
        if unit == TIMESYNCD:
            return await self._of_timesyncd()
        if unit in NTPD:
            return of_ntpd(unit, await self._ntpq("rv 0 leap,offset"), await self._ntpq("peers"))
        tracking = await self._chronyc("tracking")
        return of_chrony(unit, tracking, await self._chronyc("sources"))

    async def moved_since_boot(self) -> float:
        async with self._host.connect() as bus:
            manager = await bus.properties(ROOT, MANAGER)
        return moved(manager, time.time(), time.monotonic())

    async def measure(self) -> None:
        unit = await self._unit()
        if unit in CHRONY:
            await self._chronyc("burst", "4/4")
        else:  # both query the sources when they start, and set a clock that is far off
            await self._host.unit_job(UnitVerb.RESTART, unit, 20.0)

    async def step(self) -> None:
        if await self._unit() in CHRONY:
            await self._chronyc("makestep")

    async def _unit(self) -> str:
        for name in KEEPERS:
            try:
                if (await self._host.unit(name)).active == "active":
                    return name
            except NoSuchUnit:
                continue
        raise HostError(f"none of {', '.join(KEEPERS)} runs here")

    async def _chronyc(self, *arguments: str) -> str:
        return await self._commands.checked(
            HostCommand(["chronyc", "-c", *arguments], SECONDS, _ROOT)
        )

    async def _ntpq(self, command: str) -> str:
        return await self._commands.checked(HostCommand(["ntpq", "-n", "-c", command], SECONDS))

    async def _of_timesyncd(self) -> TimeState:
        """Read the state of timesyncd.

        It reports no offset, only whether it has selected a source, which it then follows.
        """
        argv = ["timedatectl", "show", "--property=NTPSynchronized", "--value"]
        agreed = (await self._commands.checked(HostCommand(argv, SECONDS))) == "yes"
        return TimeState(TIMESYNCD, 0.0 if agreed else None, agreed, 1)


def moved(manager: Mapping[str, Any], now: float, monotonic: float) -> float:
    """Compare the boot time that systemd recorded with the one that the clock implies now.

    manager: properties of org.freedesktop.systemd1.Manager; UserspaceTimestamp is in microseconds
    now, monotonic: seconds of CLOCK_REALTIME and CLOCK_MONOTONIC

    Raises HostError.
    """
    started = manager.get("UserspaceTimestamp"), manager.get("UserspaceTimestampMonotonic")
    if not all(isinstance(stamp, int) and stamp for stamp in started):
        raise HostError("systemd does not tell when it started")
    realtime, since_boot = (float(stamp or 0) / 1e6 for stamp in started)
    return (now - monotonic) - (realtime - since_boot)


def of_chrony(unit: str, tracking: str, sources: str) -> TimeState:
    """Parse the output of `chronyc -c tracking` and `chronyc -c sources`. Raises HostError."""
    rows = [row for row in csv.reader(tracking.splitlines()) if len(row) >= 14]
    if not rows:
        raise HostError(f"chronyc tells nothing of its tracking: {tracking[:200]!r}")
    agreed = rows[-1][13] != _UNSYNCHRONISED
    source_rows = [row for row in csv.reader(sources.splitlines()) if len(row) >= 6]
    reachable = sum(row[5] != "0" for row in source_rows)
    return TimeState(unit, float(rows[-1][4]) if agreed else None, agreed, reachable)


def of_ntpd(unit: str, variables: str, peers: str) -> TimeState:
    """Parse the output of `ntpq -c "rv 0 leap,offset"` and `ntpq -c peers`. Raises HostError.

    The offset is in milliseconds. The seventh column of the peers is the octal register of answers.
    """
    leap = re.search(r"\bleap(?:=|_)(\w+)", variables)
    if leap is None:
        raise HostError(f"ntpq tells nothing of its clock: {variables[:200]!r}")
    agreed = leap[1] not in _NTPD_ALARM
    offset = re.search(r"\boffset=([-+]?[\d.]+)", variables)
    rows = [line.split() for line in peers.splitlines()]
    reachable = sum(len(row) == 10 and row[6] not in ("0", "reach") for row in rows)
    ahead = float(offset[1]) / 1000 if agreed and offset is not None else None
    return TimeState(unit, ahead, agreed, reachable)


_NTPD_ALARM = frozenset({"11", "3", "alarm"})
"""Leap indicator of a clock that is not synchronised (RFC 5905)."""
