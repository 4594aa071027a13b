"""Runs a program of the host: as argv, never through a shell, and never longer than it may."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence

from agent.host import HostError

KEPT = 64 * 1024
"""Bytes of output that are kept, from its end: that tells why something failed."""
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C"}


async def run(argv: Sequence[str], limit: float, kept: int = KEPT) -> tuple[int, str]:
    """Exit status (negative: killed by that signal) and the end of what it said.

    Whatever it started is killed with it. Raises HostError when it cannot be started, TimeoutError
    when it takes more than `limit` seconds.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,
        )
    except OSError as error:
        raise HostError(f"{argv[0]}: {error.strerror}") from error
    assert process.stdout is not None
    try:
        async with asyncio.timeout(limit):
            said = await _tail(process.stdout, kept)
            code = await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return code, said.decode(errors="replace").strip()


async def _tail(stream: asyncio.StreamReader, kept: int) -> bytes:
    said = b""
    while part := await stream.read(kept):
        said = (said + part)[-kept:]
    return said
