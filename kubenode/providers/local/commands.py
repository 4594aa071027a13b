"""Runs of the site's own command: a few at a time, each with a time limit and bounded output.

The command runs with our environment, in a process group of its own that is killed at the time
limit. It must leave no process behind that keeps its output open.
"""

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from signal import SIGKILL

from kubenode.providers.errors import Throttled, Unreachable
from kubenode.providers.messages import plain

AT_A_TIME = 16
MAX_IN_FLIGHT = 256
COME_AGAIN = timedelta(seconds=5)
OUTPUT = 4096
"""Bytes read of each output by default; the rest is dropped."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that has ended.

    code: exit status
    output: beginning of standard output
    complained: beginning of standard error
    """

    code: int
    output: str
    complained: str

    @property
    def message(self) -> str:
        """Return how it ended as a text for people, without secrets."""
        about = plain(self.complained or self.output) or "without a word"
        return f"the command ended with {self.code}: {about}"


class ProviderCommand:
    """Runs a command, at most `AT_A_TIME` at once.

    command: program and first arguments of each run, not interpreted by a shell
    timeout: limit of one run
    """

    def __init__(self, provider: str, command: Sequence[str], timeout: timedelta) -> None:
        if not command:
            raise ValueError("command of provider local is empty: give the program to run")
        self._provider, self._command = provider, tuple(command)
        self._seconds = timeout.total_seconds()
        self._slots = asyncio.Semaphore(AT_A_TIME)
        self._in_flight = 0

    async def run(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        output: int = OUTPUT,
    ) -> Ended:
        """Run the command with `arguments`.

        output: bytes of standard output to read

        Raises Throttled if too many runs are in progress, Unreachable if the outcome is unknown.
        """
        if self._in_flight >= MAX_IN_FLIGHT:
            message = f"{self._in_flight} commands of ours are under way already"
            raise Throttled(self._provider, message, COME_AGAIN)
        self._in_flight += 1
        try:
            async with self._slots:
                command = (*self._command, *arguments)
                return await self._called(command, {**os.environ, **(env or {})}, stdin, output)
        finally:
            self._in_flight -= 1

    async def _called(
        self, command: tuple[str, ...], env: Mapping[str, str], stdin: str, output: int
    ) -> Ended:
        try:
            child = await _start(command, env, stdin=PIPE if stdin else DEVNULL)
        except (OSError, ValueError) as error:
            message = f"command {command[0]} does not start: {error}"
            raise Unreachable(self._provider, message) from error
        try:
            async with asyncio.timeout(self._seconds):
                _, printed, complained = await asyncio.gather(
                    _feed(child.stdin, stdin),
                    _read(child.stdout, output),
                    _read(child.stderr, OUTPUT),
                )
                return Ended(await child.wait(), printed, complained)
        except TimeoutError as error:
            message = f"the command did not end within {self._seconds:g} s"
            raise Unreachable(self._provider, message) from error
        finally:
            await _end(child)


async def _start(command: tuple[str, ...], env: Mapping[str, str], stdin: int) -> Process:
    """Start the command. A cancelled start is waited for: its process would go on without us."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command, stdin=stdin, stdout=PIPE, stderr=PIPE, env=env, process_group=0
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _end(await starting)
        raise


async def _feed(stream: asyncio.StreamWriter | None, text: str) -> None:
    """Write `text` to the command, which may close its input before it has read everything."""
    if stream is None:
        return
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(text.encode())
        await stream.drain()
    stream.close()
    with suppress(BrokenPipeError, ConnectionResetError):
        await stream.wait_closed()


async def _read(stream: asyncio.StreamReader | None, most: int) -> str:
    """Read to the end, so that the command never blocks, and return the first `most` bytes."""
    content = b""
    while stream is not None and (part := await stream.read(1 << 16)):
        content = (content + part)[:most]
    return content.decode(errors="replace").strip()


async def _end(child: Process) -> None:
    """Kill the command's process group if it still runs, also after a cancellation."""
    if child.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, SIGKILL)
        await asyncio.shield(child.wait())
