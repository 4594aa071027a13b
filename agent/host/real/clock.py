"""The clock's keeper: chrony through chronyc, else systemd-timesyncd through its unit."""

import csv

from agent.host import HostError, NoSuchUnit, UnitVerb
from agent.host.ports import TimeState
from agent.host.real.commands import Command, Commands
from agent.host.systemd import SystemdHost

CHRONY = ("chrony.service", "chronyd.service")
TIMESYNCD = "systemd-timesyncd.service"
SECONDS = 10.0
_UNSYNCHRONISED = "Not synchronised"
_ROOT = ("CAP_DAC_OVERRIDE", "CAP_CHOWN", "CAP_FOWNER")
"""chronyc makes a socket in a folder that belongs to chrony's own user."""


class RealTime:
    """Implements agent.host.ports.TimeService."""

    def __init__(self, host: SystemdHost, commands: Commands) -> None:
        self._host = host
        self._commands = commands

    async def state(self) -> TimeState:
        unit = await self._unit()
        if unit == TIMESYNCD:
            return await self._of_timesyncd()
        tracking = await self._chronyc("tracking")
        return of_chrony(unit, tracking, await self._chronyc("sources"))

    async def measure(self) -> None:
        unit = await self._unit()
        if unit == TIMESYNCD:
            await self._host.unit_job(UnitVerb.RESTART, unit, 20.0)
        else:
            await self._chronyc("burst", "4/4")

    async def step(self) -> None:
        if await self._unit() != TIMESYNCD:  # which steps by itself when it starts
            await self._chronyc("makestep")

    async def _unit(self) -> str:
        for name in (*CHRONY, TIMESYNCD):
            try:
                if (await self._host.unit(name)).active == "active":
                    return name
            except NoSuchUnit:
                continue
        raise HostError(f"none of {', '.join((*CHRONY, TIMESYNCD))} runs here")

    async def _chronyc(self, *words: str) -> str:
        return await self._commands.checked(Command(["chronyc", "-c", *words], SECONDS, _ROOT))

    async def _of_timesyncd(self) -> TimeState:
        """It tells no offset but whether it has agreed with a source, which it then follows."""
        argv = ["timedatectl", "show", "--property=NTPSynchronized", "--value"]
        agreed = (await self._commands.checked(Command(argv, SECONDS))) == "yes"
        return TimeState(TIMESYNCD, 0.0 if agreed else None, agreed, 1)


def of_chrony(unit: str, tracking: str, sources: str) -> TimeState:
    """From `chronyc -c tracking` and `sources`. Raises HostError."""
    rows = [row for row in csv.reader(tracking.splitlines()) if len(row) >= 14]
    if not rows:
        raise HostError(f"chronyc tells nothing of its tracking: {tracking[:200]!r}")
    agreed = rows[-1][13] != _UNSYNCHRONISED
    heard = [row for row in csv.reader(sources.splitlines()) if len(row) >= 6]
    reachable = sum(row[5] != "0" for row in heard)
    return TimeState(unit, float(rows[-1][4]) if agreed else None, agreed, reachable)
