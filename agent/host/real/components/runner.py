"""Programs as transient units. A unit that the agent began before a restart is found by its
name.
"""

import asyncio
import hashlib
from collections.abc import Sequence

from agent.host import NoSuchUnit
from agent.host.ports import CommandResult
from agent.host.real.commands import Commands, HostCommand

POLL_SECONDS = 0.2
_DIGITS = 24


class UnitRunner:
    """Implements agent.components.ports.CommandRunner."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    async def run(self, argv: Sequence[str], limit: float, name: str = "") -> CommandResult:
        if not name:
            return await self._commands.run(HostCommand(argv, limit, capabilities=None))
        unit = unit_name(name, argv)
        ran = await self._still_running(unit, limit)
        if ran is None:
            ran = await self._begun(HostCommand(argv, limit, capabilities=None, name=unit))
        await self._commands.forget(unit)
        return ran

    async def _still_running(self, unit: str, limit: float) -> CommandResult | None:
        """Wait for a unit that was begun before the agent's restart and still runs; None if there
        is none.

        A unit that has ended is unloaded without effect: the host may have changed since.

        Raises TimeoutError.
        """
        try:
            if await self._commands.ended(unit) is not None:
                await self._commands.forget(unit)
                return None
        except NoSuchUnit:
            return None
        async with asyncio.timeout(limit):
            while True:
                ran = await self._commands.ended(unit)
                if ran is not None:
                    return ran
                await asyncio.sleep(POLL_SECONDS)

    async def _begun(self, command: HostCommand) -> CommandResult:
        try:
            return await self._commands.run_persistent(command)
        except TimeoutError:
            await self._commands.forget(command.name)
            raise


def unit_name(name: str, argv: Sequence[str]) -> str:
    """Return the unit's name, without suffix; it is the same for the same step and program."""
    text = "\0".join([name, *argv])
    return f"kubenode-component-{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"
