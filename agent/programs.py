"""Runs a program of the host, without a shell and with a time limit.

An agent in a Pod starts it in the host's namespaces, where it finds the host's tools and files.

The program has a process group of its own. When it ends or times out, the rest of the group is
killed, so that a child that keeps the output open does not block the agent. A process that the
kernel does not let die is left alone.
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
from agent.host.files import OWN_ROOT

ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C",
}
OUTPUT_BYTES = 64 * 1024
"""Bytes of output that are kept, from its end, which tells why something failed."""
DYING_SECONDS = 2.0
LINE_BYTES = 64 * 1024
ENTER_HOST = ("nsenter", "--target=1", "--mount", "--uts", "--ipc", "--net", "--")
"""Starts a program beside process 1 of the host. Source: nsenter(1); it needs `hostPID`."""
_PART = 65536
_PARTS = 64
"""Reads after the program ended: as much as a pipe holds, even if a child goes on writing."""


@contextlib.asynccontextmanager
async def started(
    argv: Sequence[str],
    stdout: int,
    stderr: int = DEVNULL,
    line_bytes: int = LINE_BYTES,
    program: int | None = None,
    root: str = OWN_ROOT,
) -> AsyncIterator[Process]:
    """Start a program and end it with the block. Raises HostError if it cannot be started.

    After the block its `returncode` is None if it hangs in the kernel.

    stdout, stderr: a file descriptor or a constant of asyncio.subprocess
    line_bytes: longest line that is read from a pipe
    program: file descriptor of the program to run instead of the file `argv[0]`
    root: where the host's root is mounted; elsewhere than at `/` the host's namespaces are entered
    """
    by_handle: dict[str, Any] = {}
    command = list(argv)
    if program is not None:
        by_handle = {"pass_fds": (program,)}
        if root == OWN_ROOT:
            by_handle["executable"] = f"/proc/self/fd/{program}"
        else:
            command[0] = f"/proc/self/fd/{program}"
    if root != OWN_ROOT:
        command = [*ENTER_HOST, *command]
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
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
    argv: Sequence[str],
    limit: float,
    output_bytes: int = OUTPUT_BYTES,
    program: int | None = None,
    root: str = OWN_ROOT,
) -> tuple[int, str]:
    """Run a program; return its exit status (negative: the signal) and the end of its output.

    Raises HostError if it cannot be started, TimeoutError if it takes longer than `limit` seconds.
    """
    with Output(output_bytes, end=True) as output:
        streams = output.inlet, output.inlet
        async with started(argv, *streams, program=program, root=root) as process:
            output.close_inlet()
            async with asyncio.timeout(limit):
                code = await process.wait()
        return code, output.rest()


class Output:
    """Reads a program's output while it runs, so that it never blocks; keeps its start or end."""

    def __init__(self, most_bytes: int, *, end: bool = False) -> None:
        self._most_bytes, self._end, self._content = most_bytes, end, b""
        self._outlet, self.inlet = os.pipe()
        os.set_blocking(self._outlet, False)

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._outlet, self._read)
        return self

    def _read(self) -> bool:
        """Read once; return whether more output may follow."""
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
        """Close the agent's writing end of the pipe, so that the end of the program's output is
        noticed.
        """
        if self.inlet >= 0:
            os.close(self.inlet)
            self.inlet = -1

    def rest(self) -> str:
        """Read the remaining output after the program ended; return all that was kept."""
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
