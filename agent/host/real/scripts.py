"""Scripts: the verified bytes are written to a folder that only root can write, and run from
there.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from agent.host import HostError
from agent.host.ports import CommandResult
from agent.host.real.commands import Commands, HostCommand


class RealScripts:
    """Implements agent.host.ports.Scripts.

    folder: on a file system that permits execution; the host must see it at the same path
    """

    def __init__(self, commands: Commands, folder: Path) -> None:
        self._commands = commands
        self._folder = folder

    async def begin(
        self, name: str, program: bytes, args: Sequence[str], limit: float
    ) -> CommandResult:
        unit = _unit(name)
        path = self._write(unit, program)
        command = HostCommand([str(path), *args], limit, capabilities=None, name=unit)
        try:
            ran = await self._commands.run_persistent(command)
        except TimeoutError:
            await self._commands.forget(unit)
            raise
        await self._keep(unit, ran)
        return ran

    async def ended(self, name: str) -> CommandResult | None:
        unit = _unit(name)
        try:
            return msgspec.json.decode(
                (self._folder / f"{unit}.ended").read_bytes(), type=CommandResult
            )
        except FileNotFoundError:
            pass
        except (OSError, msgspec.DecodeError) as error:
            raise HostError(f"how {unit} ended cannot be read: {error}") from error
        ran = await self._commands.ended(unit)
        if ran is not None:
            await self._keep(unit, ran)
        return ran

    async def _keep(self, unit: str, ran: CommandResult) -> None:
        """Store the result, then remove the unit and the program.

        The stored result survives an end of the agent.
        """
        try:
            path = self._folder / f"{unit}.ended"
            path.with_suffix(".new").write_bytes(msgspec.json.encode(ran))
            path.with_suffix(".new").replace(path)
        except OSError as error:
            raise HostError(f"{self._folder}: {error.strerror}") from error
        await self._commands.forget(unit)
        (self._folder / unit).unlink(missing_ok=True)

    def _write(self, unit: str, program: bytes) -> Path:
        path = self._folder / unit
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for earlier in self._folder.iterdir():
                earlier.unlink()
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o500)
            with os.fdopen(handle, "wb") as file:
                file.write(program)
        except OSError as error:
            raise HostError(f"{path}: {error.strerror}") from error
        return path


def _unit(name: str) -> str:
    return f"kubenode-script-{hashlib.sha256(name.encode()).hexdigest()[:24]}"
