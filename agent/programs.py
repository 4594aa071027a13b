"""Runs a program of the host: as argv, never through a shell, and never longer than it may.

It gets a process group of its own. When it ends, or its time does, what is left of the group is
killed: a child that holds on to the output does not hold us. A process that the kernel does not
let die is left alone.
"""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from agent.host import HostError

ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C",
}
OUTPUT_BYTES = 64 * 1024
"""Bytes of output that are kept, from its end: that tells why something failed."""
DYING_SECONDS = 2.0
LINE_BYTES = 64 * 1024
_PART = 65536
_PARTS = 64
"""Reads after the end: what a pipe holds, and no more from one who goes on writing."""


@contextlib.asynccontextmanager
async def started(
    argv: Sequence[str],
    stdout: int,
    stderr: int = DEVNULL,
    line_bytes: int = LINE_BYTES,
    program: int | None = None,
) -> AsyncIterator[Process]:
    """A program at work, until the end of the block. Raises HostError when it cannot be started.

    After the block its `returncode` is None if it hangs in the kernel.

    stdout, stderr  a file descriptor, or what asyncio.subprocess has for one
    line_bytes      the longest line that is read of a pipe
    program         a file descriptor of what is run in place of the file `argv[0]`
    """
    by_handle: dict[str, Any] = {}
    if program is not None:
        by_handle = {"executable": f"/proc/self/fd/{program}", "pass_fds": (program,)}
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            **by_handle,
            stdin=DEVNULL,
            stdout=stdout,
            stderr=stderr,
            limit=line_bytes,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,
        )
    except OSError as error:
        raise HostError(f"{argv[0]}: {error.strerror or error}") from error
    except ValueError as error:
        raise HostError(f"{argv[0]}: {error}") from error
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DYING_SECONDS):
                await process.wait()


async def run(
    argv: Sequence[str], limit: float, output_bytes: int = OUTPUT_BYTES, program: int | None = None
) -> tuple[int, str]:
    """Exit status (negative: killed by that signal) and the end of what it said.

    Raises HostError when it cannot be started, TimeoutError when it takes more than `limit`
    seconds.
    """
    with Output(output_bytes, end=True) as output:
        async with started(argv, output.inlet, output.inlet, program=program) as process:
            output.close_inlet()
            async with asyncio.timeout(limit):
                code = await process.wait()
        return code, output.rest()


class Output:
    """Reads while a program writes, so that it never blocks; keeps the beginning, or the end."""

    def __init__(self, most_bytes: int, *, end: bool = False) -> None:
        self._most_bytes, self._end, self._content = most_bytes, end, b""
        self._outlet, self.inlet = os.pipe()
        os.set_blocking(self._outlet, False)

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._outlet, self._read)
        return self

    def _read(self) -> bool:
        """Whether there may be more."""
        try:
            part = os.read(self._outlet, _PART)
        except BlockingIOError:
            return False
        if self._end:
            self._content = (self._content + part)[-self._most_bytes :]
        else:
            self._content += part[: self._most_bytes - len(self._content)]
        if not part:
            asyncio.get_running_loop().remove_reader(self._outlet)
        return bool(part)

    def close_inlet(self) -> None:
        """Ours: the end of the program's shall be seen."""
        if self.inlet >= 0:
            os.close(self.inlet)
            self.inlet = -1

    def rest(self) -> str:
        """All that was said, after the end."""
        for _ in range(_PARTS):
            if not self._read():
                break
        return self._content.decode(errors="replace").strip()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._outlet)
        self.close_inlet()
        os.close(self._outlet)
