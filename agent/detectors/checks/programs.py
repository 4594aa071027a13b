"""Runs a program of the host: as argv, never through a shell, with an end to its time and words.

It gets a process group of its own. When it ends, or its time does, what is left of the group is
killed: a child that holds on to the output does not hold us. A process that the kernel does not
let die is left alone, and not started a second time beside itself.
"""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C",
}
KEPT = 4096
"""Bytes of output that are kept where nobody says otherwise; the rest is thrown away."""
DYING_SECONDS = 2.0
_PART = 65536
_PARTS = 64
"""Reads after the end: what a pipe holds, and no more from one who goes on writing."""


@dataclass(frozen=True, slots=True)
class Ran:
    """code  exit status, None when there is none: `why` says what happened instead
    said  the beginning of its standard output, or of its errors when that is empty
    """

    code: int | None
    said: str = ""
    why: str = ""


class Runner(Protocol):
    async def run(self, argv: Sequence[str], seconds: float, kept: int = KEPT) -> Ran:
        """Never raises: what cannot be run says why. `kept`: bytes of output."""
        ...


class Programs:
    """Implements Runner with programs of this host. Remembers which programs would not die."""

    def __init__(self) -> None:
        self._hanging: dict[tuple[str, ...], Process] = {}

    async def run(self, argv: Sequence[str], seconds: float, kept: int = KEPT) -> Ran:
        key = tuple(argv)
        earlier = self._hanging.pop(key, None)
        if earlier is not None and earlier.returncode is None:
            self._hanging[key] = earlier
            return Ran(None, why=f"{argv[0]}: an earlier run hangs in the kernel")
        with Kept(kept) as said, Kept(kept) as complained:
            try:
                process = await asyncio.create_subprocess_exec(
                    *argv,
                    stdin=DEVNULL,
                    stdout=said.inlet,
                    stderr=complained.inlet,
                    cwd="/",
                    env=ENVIRONMENT,
                    start_new_session=True,
                )
            except OSError as error:
                return Ran(None, why=f"{argv[0]}: {error.strerror or error}")
            except ValueError as error:
                return Ran(None, why=f"{argv[0]}: {error}")
            said.close_inlet()
            complained.close_inlet()
            ended = await self._end(key, process, seconds)
            text = said.rest() or complained.rest()
        if not ended:
            return Ran(None, text, f"{argv[0]}: no result within {seconds:g} s")
        code = process.returncode
        assert code is not None
        if code < 0:
            return Ran(None, text, f"{argv[0]}: killed by signal {-code}")
        return Ran(code, text)

    async def _end(self, key: tuple[str, ...], process: Process, seconds: float) -> bool:
        """Whether it ended by itself. Its group is gone afterwards, or remembered as hanging."""
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
            return True
        except TimeoutError:
            return False
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            try:
                async with asyncio.timeout(DYING_SECONDS):
                    await process.wait()
            except TimeoutError:
                self._hanging[key] = process


class Kept:
    """Reads while the program writes, so that it never blocks; keeps the beginning."""

    def __init__(self, kept: int) -> None:
        self._kept, self._said = kept, b""
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
        self._said += part[: self._kept - len(self._said)]
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
        return self._said.decode(errors="replace").strip()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._outlet)
        self.close_inlet()
        os.close(self._outlet)
