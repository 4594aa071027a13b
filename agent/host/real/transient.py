"""Transient units: start one with a command, wait for its end, read its result later."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbus_fast import Variant

from agent.host import NoSuchUnit, UnitVerb
from agent.host.systemd import SYSTEMD, Bus, SystemdHost

EXITED = 1
"""CLD_EXITED; any other ExecMainCode means that a signal ended the process."""


@dataclass(frozen=True, slots=True)
class UnitEnd:
    """End of a unit.

    code: exit status, or minus the signal number
    timed_out: whether systemd ended it at its timeout
    """

    code: int
    timed_out: bool = False


async def begin(host: SystemdHost, unit: str, properties: Mapping[str, Variant]) -> None:
    """Start the unit without waiting. Raises HostError."""
    async with host.connect() as bus:
        await bus.manager(*_start(unit, properties))


async def run(
    host: SystemdHost,
    unit: str,
    properties: Mapping[str, Variant],
    limit: float,
    output: int | None = None,
) -> UnitEnd:
    """Start the unit and return its end. Raises HostError.

    limit: seconds to wait
    output: file descriptor for the output; None: the journal
    """
    files = [] if output is None else [output]
    given = dict(properties)
    if files:
        given["StandardOutputFileDescriptor"] = Variant("h", 0)
    async with host.connect() as bus:
        await bus.listen()
        (job,) = await bus.manager(*_start(unit, given), files=files)
        await bus.end_of(job, limit, f"run {unit}")
        return _end(await _service(bus, unit))


async def ended(host: SystemdHost, unit: str) -> UnitEnd | None:
    """Return the end; None while it runs. Raises NoSuchUnit if it never began, or was unloaded."""
    async with host.connect() as bus:
        read = await _service(bus, unit)
    if read["ActiveState"] in ("activating", "deactivating", "reloading"):
        return None
    if not read["ExecMainStartTimestamp"]:
        raise NoSuchUnit(f"{unit} is not known to systemd")
    return _end(read)


async def forget(host: SystemdHost, unit: str, limit: float) -> None:
    """Let systemd unload the unit after its final command has run. A running unit is stopped.

    limit: seconds
    """
    async with host.connect() as bus:
        try:
            await bus.run_job(UnitVerb.STOP, unit, limit)
            await bus.manager("ResetFailedUnit", "s", unit)
        except NoSuchUnit:
            return  # already unloaded


def _start(unit: str, properties: Mapping[str, Variant]) -> tuple[Any, ...]:
    listed = [[name, value] for name, value in properties.items()]
    return "StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "fail", listed, []


async def _service(bus: Bus, unit: str) -> dict[str, Any]:
    (path,) = await bus.manager("LoadUnit", "s", unit)
    read = await bus.properties(path, f"{SYSTEMD}.Unit")
    return {**read, **await bus.properties(path, f"{SYSTEMD}.Service")}


def _end(read: Mapping[str, Any]) -> UnitEnd:
    status = int(read["ExecMainStatus"])
    code = status if read["ExecMainCode"] in (0, EXITED) else -status
    return UnitEnd(code, read["Result"] == "timeout")
