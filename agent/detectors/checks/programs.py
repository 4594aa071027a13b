"""Runs the programs of checks.

A program that hangs in the kernel is not started again while it hangs.
"""

import asyncio
from asyncio.subprocess import Process
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.host import HostError
from agent.host.files import OWN_ROOT
from agent.programs import Output, started

DEFAULT_OUTPUT_BYTES = 4096
"""Default bound on the output in bytes; the rest is discarded."""


@dataclass(frozen=True, slots=True)
class Ran:
    """Result of a program.

    code: exit status; None if there is none, and `why` tells the reason
    output: start of its standard output, or of its errors if that is empty
    """

    code: int | None
    output: str = ""
    why: str = ""


class Runner(Protocol):
    async def run(
        self, argv: Sequence[str], seconds: float, output_bytes: int = DEFAULT_OUTPUT_BYTES
    ) -> Ran:
        """Run a program. Never raises. output_bytes: bound on the output."""
        ...


class Programs:
    """Implements Runner with programs of this host. Remembers programs that hang in the kernel.

    root: where the host's root is mounted
    """

    def __init__(self, root: str = OWN_ROOT) -> None:
        self._root = root
        self._hanging: dict[tuple[str, ...], Process] = {}

    async def run(
        self, argv: Sequence[str], seconds: float, output_bytes: int = DEFAULT_OUTPUT_BYTES
    ) -> Ran:
        key = tuple(argv)
        earlier = self._hanging.pop(key, None)
        if earlier is not None and earlier.returncode is None:
            self._hanging[key] = earlier
            return Ran(None, why=f"{argv[0]}: an earlier run hangs in the kernel")
        with Output(output_bytes) as output, Output(output_bytes) as complained:
            try:
                ended, process = await self._run(argv, seconds, output, complained)
            except HostError as error:
                return Ran(None, why=str(error))
            text = output.rest() or complained.rest()
        if process.returncode is None:
            self._hanging[key] = process
        if not ended or process.returncode is None:
            return Ran(None, text, f"{argv[0]}: no result within {seconds:g} s")
        if process.returncode < 0:
            return Ran(None, text, f"{argv[0]}: killed by signal {-process.returncode}")
        return Ran(process.returncode, text)

    async def _run(
        self, argv: Sequence[str], seconds: float, output: Output, complained: Output
    ) -> tuple[bool, Process]:
        """Return whether it ended in time, and its process. Raises HostError if it cannot be
        started.
        """
        ended = True
        async with started(argv, output.inlet, complained.inlet, root=self._root) as process:
            output.close_inlet()
            complained.close_inlet()
            try:
                async with asyncio.timeout(seconds):
                    await process.wait()
            except TimeoutError:
                ended = False
        return ended, process
