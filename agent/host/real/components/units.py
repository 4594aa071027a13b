"""Units over systemd's D-Bus interface: enabled, masked, running."""

from typing import Any

from agent.components.ports import UnitSnapshot
from agent.host import HostError, NoSuchUnit, UnitVerb
from agent.host.systemd import SYSTEMD, SystemdHost

UNIT = f"{SYSTEMD}.Unit"
SERVICE = f"{SYSTEMD}.Service"


class SystemdUnits:
    """Implements agent.components.ports.Units."""

    def __init__(self, host: SystemdHost) -> None:
        self._host = host

    async def read_unit(self, name: str) -> UnitSnapshot:
        async with self._host.connect() as bus:
            (path,) = await bus.manager("LoadUnit", "s", name)
            read = await bus.properties(path, UNIT)
            own: dict[str, Any] = {}
            if name.endswith(".service") and read.get("LoadState") == "loaded":
                own = await bus.properties(path, SERVICE)
        masked = read.get("LoadState") == "masked"
        return UnitSnapshot(
            loaded=read.get("LoadState") in ("loaded", "masked"),
            enabled=read.get("UnitFileState") or ("masked" if masked else ""),
            active=read.get("ActiveState", ""),
            invocation=bytes(read.get("InvocationID", b"")).hex(),
            oneshot=own.get("Type") == "oneshot",
            result=own.get("Result", "success"),
            stale=bool(read.get("NeedDaemonReload")),
        )

    async def set_enabled(self, name: str, *, on: bool) -> None:
        if on:
            await self._change("EnableUnitFiles", "asbb", [name], False, False)
        else:
            await self._change("DisableUnitFiles", "asb", [name], False)

    async def set_masked(self, name: str, *, on: bool) -> None:
        """Mask or unmask the unit. systemd refuses a mask if /etc has a unit file of the same
        name.
        """
        if on:
            await self._change("MaskUnitFiles", "asbb", [name], False, False)
        else:
            # A mask for this boot only is in another folder.
            await self._change("UnmaskUnitFiles", "asb", [name], True)
            await self._change("UnmaskUnitFiles", "asb", [name], False)

    async def reread(self) -> None:
        async with self._host.connect() as bus:
            await bus.manager("Reload", "")

    async def start(self, name: str, limit: float) -> None:
        await self._host.reset_failed(name)
        await self._host.unit_job(UnitVerb.START, name, limit)

    async def stop(self, name: str, limit: float) -> None:
        await self._host.unit_job(UnitVerb.STOP, name, limit)

    async def restart(self, name: str, limit: float) -> None:
        await self._host.reset_failed(name)
        await self._host.unit_job(UnitVerb.RESTART, name, limit)

    async def reload(self, name: str, limit: float) -> None:
        async with self._host.connect() as bus:
            await bus.listen()
            (job,) = await bus.manager("ReloadOrRestartUnit", "ss", name, "replace")
            result = await bus.end_of(job, limit, f"reload {name}")
        if result not in ("done", "skipped"):
            raise HostError(f"reload {name}: systemd's job ended with {result!r}")

    async def _change(self, member: str, signature: str, *args: Any) -> None:
        """Change unit files, then reload them: systemd rereads them only on request, as
        systemctl does.
        """
        async with self._host.connect() as bus:
            try:
                await bus.manager(member, signature, *args)
            except NoSuchUnit:
                raise
            except HostError as error:
                raise HostError(f"{args[0][0]}: {error}") from error
            await bus.manager("Reload", "")
