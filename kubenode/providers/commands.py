"""A command of the site's own: a few runs at a time, each for a bounded time, output and number.

It runs with our environment, in a process group of its own, which is killed when its time is over.
It must leave nothing behind that holds its output open.
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
MOST_UNDER_WAY = 256
COME_AGAIN = timedelta(seconds=5)
OUTPUT = 4096
"""Bytes of each output that are read, unless told; the rest is dropped."""


@dataclass(frozen=True, slots=True)
class Ended:
    """code  it ended with
    said  on its output, complained on its error output: the beginning of it
    """

    code: int
    said: str
    complained: str

    @property
    def words(self) -> str:
        """For people, without secrets."""
        about = plain(self.complained or self.said) or "without a word"
        return f"the command ended with {self.code}: {about}"


class ProviderCommand:
    """words    that every call begins with, not interpreted by a shell
    timeout  for one run
    """

    def __init__(self, provider: str, words: Sequence[str], timeout: timedelta) -> None:
        if not words:
            raise ValueError("command of provider local is empty: give the program to run")
        self._provider, self._words = provider, tuple(words)
        self._seconds = timeout.total_seconds()
        self._slots = asyncio.Semaphore(AT_A_TIME)
        self._under_way = 0

    async def run(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        output: int = OUTPUT,
    ) -> Ended:
        """Raises Throttled, and Unreachable where nobody knows how it ended."""
        if self._under_way >= MOST_UNDER_WAY:
            told = f"{self._under_way} commands of ours are under way already"
            raise Throttled(self._provider, told, COME_AGAIN)
        self._under_way += 1
        try:
            async with self._slots:
                words = (*self._words, *arguments)
                return await self._called(words, {**os.environ, **(env or {})}, stdin, output)
        finally:
            self._under_way -= 1

    async def _called(
        self, words: tuple[str, ...], env: Mapping[str, str], stdin: str, output: int
    ) -> Ended:
        try:
            child = await _start(words, env, stdin=PIPE if stdin else DEVNULL)
        except (OSError, ValueError) as error:
            told = f"command {words[0]} does not start: {error}"
            raise Unreachable(self._provider, told) from error
        try:
            async with asyncio.timeout(self._seconds):
                _, said, complained = await asyncio.gather(
                    _feed(child.stdin, stdin),
                    _read(child.stdout, output),
                    _read(child.stderr, OUTPUT),
                )
                return Ended(await child.wait(), said, complained)
        except TimeoutError as error:
            told = f"the command did not end within {self._seconds:g} s"
            raise Unreachable(self._provider, told) from error
        finally:
            await _end(child)


async def _start(words: tuple[str, ...], env: Mapping[str, str], stdin: int) -> Process:
    """A cancelled start is waited for: what it began would go on without us."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *words, stdin=stdin, stdout=PIPE, stderr=PIPE, env=env, process_group=0
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _end(await starting)
        raise


async def _feed(stream: asyncio.StreamWriter | None, text: str) -> None:
    """Who does not read it to the end has had enough."""
    if stream is None:
        return
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(text.encode())
        await stream.drain()
    stream.close()
    with suppress(BrokenPipeError, ConnectionResetError):
        await stream.wait_closed()


async def _read(stream: asyncio.StreamReader | None, most: int) -> str:
    """To the end, so that the command never waits for us; the beginning of it."""
    kept = b""
    while stream is not None and (part := await stream.read(1 << 16)):
        kept = (kept + part)[:most]
    return kept.decode(errors="replace").strip()


async def _end(child: Process) -> None:
    """Whatever of the command still runs, also when nobody waits for it any more."""
    if child.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, SIGKILL)
        await asyncio.shield(child.wait())
