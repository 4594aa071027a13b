"""Transient units: begin one with a command, wait for its end, ask later how it ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbus_fast import Variant

from agent.host import NoSuchUnit, UnitVerb
from agent.host.systemd import SYSTEMD, Bus, SystemdHost

EXITED = 1
"""CLD_EXITED; any other ExecMainCode is the end by a signal."""


@dataclass(frozen=True, slots=True)
class UnitEnd:
    """code       exit status, or minus the signal
    timed_out  systemd ended it as it was late
    """

    code: int
    timed_out: bool = False


async def begin(host: SystemdHost, unit: str, properties: Mapping[str, Variant]) -> None:
    """Begin it and do not wait. Raises HostError."""
    async with host.connect() as bus:
        await bus.manager(*_start(unit, properties))


async def run(
    host: SystemdHost,
    unit: str,
    properties: Mapping[str, Variant],
    limit: float,
    output: int | None = None,
) -> UnitEnd:
    """Begin it; how it ended. Raises HostError.

    output  file of its output, the journal if None
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
    """None while it runs. Raises NoSuchUnit when it never began, or is forgotten."""
    async with host.connect() as bus:
        read = await _service(bus, unit)
    if read["ActiveState"] in ("activating", "deactivating", "reloading"):
        return None
    if not read["ExecMainStartTimestamp"]:
        raise NoSuchUnit(f"{unit} is not known to systemd")
    return _end(read)


async def forget(host: SystemdHost, unit: str, limit: float) -> None:
    """Let systemd unload it, once what is run at its end has run; one that runs is ended."""
    async with host.connect() as bus:
        try:
            await bus.run_job(UnitVerb.STOP, unit, limit)
            await bus.manager("ResetFailedUnit", "s", unit)
        except NoSuchUnit:
            return  # it is unloaded, as it should be


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
