"""Backups of files that a tree replaces: copied first, restored when the tree is removed.

The copies for one destination are in a folder of the agent, under their paths below the
destination, with mode, owner and times. The caller records what was copied, so that a file is
copied only once, before the tree owns it.
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
"""Maximum bytes of the backups for one destination, so that they do not fill the host's disk."""
COPY_SECONDS = 900.0
MOST_AT_ONCE = 200
"""Maximum paths in one argv."""


class Replaced:
    """Backups of replaced files.

    folder: the agent's; the host must see it at the same path
    root: where the host's files are mounted
    base: folder of the host that is trusted, with all folders above it; "" for none
    """

    def __init__(self, runner: CommandRunner, folder: Path, root: Path, base: str = "") -> None:
        self._runner, self._folder, self._root, self._base = runner, folder, root, base
        self._disk = RealDisk()

    def of(self, dest: str) -> Path:
        return self._folder / hashlib.sha256(dest.encode()).hexdigest()[:24]

    async def keep(self, dest: str, paths: Sequence[str]) -> list[str]:
        """Back up the paths below `dest` that exist, and return them. Raises Contraindicated,
        HostError.
        """
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
        """Return the paths that are files or links, and their bytes in all."""
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
