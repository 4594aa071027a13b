"""Files of others that a tree takes the place of: copied aside first, put back when it goes.

The copies of one destination lie in a folder of ours, under their paths below it, with mode, owner
and times. What was copied is written down by who asks for it, so that a file is copied once, before
it is ours.
"""

import asyncio
import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from agent.components.ports import CommandRunner
from agent.disk import RealDisk
from agent.host import Contraindicated, HostError
from agent.host.real.components.paths import resolve_host_path
from agent.host.real.components.programs import checked
from agent.host.real.components.scripts import argv, grouped

MOST_BYTES = 1 << 30
"""That are kept of one destination: a host's disk is not ours to fill."""
COPY_SECONDS = 900.0
MOST_AT_ONCE = 200
"""Paths in one argv."""


class Replaced:
    """folder  of ours; the host must see it at the same place
    root    where the host's files are
    base    folder of the host that is trusted, with all above it; "" for none
    """

    def __init__(self, runner: CommandRunner, folder: Path, root: Path, base: str = "") -> None:
        self._runner, self._folder, self._root, self._base = runner, folder, root, base
        self._disk = RealDisk()

    def of(self, dest: str) -> Path:
        return self._folder / hashlib.sha256(dest.encode()).hexdigest()[:24]

    async def keep(self, dest: str, paths: Sequence[str]) -> list[str]:
        """Which of the paths below dest were there, and are kept now. Raises Contraindicated."""
        there, size = await asyncio.to_thread(self._there, dest, paths)
        if size > MOST_BYTES:
            raise Contraindicated(
                f"{dest}: {len(there)} files that are there would be replaced, {size} bytes, and"
                " could not be put back when the host is let go; move them away, then raise the"
                " component's attempt"
            )
        if not there:
            return []
        try:
            self._disk.make_folder(self.of(dest))
        except OSError as error:
            raise HostError(f"{self.of(dest)}: {error.strerror}") from error
        for at in range(0, len(there), MOST_AT_ONCE):
            names = [f"./{path}" for path in grouped(there[at : at + MOST_AT_ONCE])]
            program = argv("keep-replaced", self._base, dest, str(self.of(dest)), *names)
            await checked(self._runner, program, COPY_SECONDS, "", f"source.dest {dest}")
        return there

    def drop(self, dest: str) -> None:
        shutil.rmtree(self.of(dest), ignore_errors=True)

    def _there(self, dest: str, paths: Sequence[str]) -> tuple[list[str], int]:
        """Files and links, and their bytes."""
        folder, present, size = resolve_host_path(self._root, dest), [], 0
        for path in paths:
            try:
                known = os.lstat(folder / path)
            except OSError:
                continue
            if not stat.S_ISDIR(known.st_mode):
                present.append(path)
                size += known.st_size
        return present, size
