"""Runs a package manager, and waits while another process has its database locked."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence

from agent.components.ports import CommandRunner
from agent.host import HostError
from agent.host.ports import CommandResult

AGAIN_SECONDS = 2.0
OUTPUT_CHARS = 800
"""Maximum characters of an output in an error; the end is kept."""


class Patient:
    """Runner of a package manager.

    locked: matches the program's output if another process has the lock
    """

    def __init__(
        self,
        runner: CommandRunner,
        locked: re.Pattern[str],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._runner, self._locked = runner, locked
        self._clock, self._sleep = clock, sleep

    async def run(
        self, name: str, argv: Sequence[str], limit: float, lock_wait: float
    ) -> CommandResult:
        """Run until the lock is available, and return the result.

        limit: seconds for the program, beyond `lock_wait`
        lock_wait: seconds to wait for the lock

        Raises HostError if the lock is not available in time, or the program takes too long.
        """
        end = self._clock() + lock_wait
        while True:
            try:
                ran = await self._runner.run(argv, limit + lock_wait, name)
            except TimeoutError as error:
                raise HostError(f"{name}: no end in {limit + lock_wait:g} s") from error
            if ran.code == 0 or not self._locked.search(ran.output):
                return ran
            if self._clock() + AGAIN_SECONDS > end:
                raise HostError(
                    f"{name}: the package database stays locked for more than {lock_wait:g} s:"
                    f" {ran.output[-OUTPUT_CHARS:]}"
                )
            await self._sleep(AGAIN_SECONDS)

    async def checked(self, name: str, argv: Sequence[str], limit: float, lock_wait: float) -> str:
        """Run as `run` does, and return the output. Raises HostError for an exit status other
        than 0.
        """
        ran = await self.run(name, argv, limit, lock_wait)
        if ran.code != 0:
            raise HostError(f"{name}: exit status {ran.code}: {ran.output[-OUTPUT_CHARS:]}")
        return ran.output
