"""Files: read by the agent, written by a unit of systemd, because the agent itself may write few.

Mode and owner are set before a file gets its name, so that a secret is never readable, even
briefly.
"""

import asyncio
import os
import stat
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from agent.components.ports import MOST_BYTES, FileSnapshot
from agent.host import HostError
from agent.host.files import HostRoot
from agent.host.real.commands import Commands, HostCommand
from agent.host.real.components.paths import resolve_host_path
from agent.host.real.components.scripts import argv, check_refusal

WRITE_SECONDS = 60.0
_RIGHTS = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER")


class RealFiles:
    """Implements agent.components.ports.HostFiles.

    folder: for content to be written; the host must see it at the same path
    root: where the host's files are mounted
    base: folder of the host that is trusted, with all folders above it; "" for none
    """

    def __init__(self, commands: Commands, folder: Path, root: Path, base: str = "") -> None:
        self._commands, self._folder, self._root, self._base = commands, folder, root, base

    async def read(self, path: str) -> FileSnapshot | None:
        return await asyncio.to_thread(self._read, path)

    async def write(self, path: str, content: bytes, mode: str, owner: str) -> None:
        await asyncio.to_thread(resolve_host_path, self._root, path)
        source = await asyncio.to_thread(self._laid_down, content)
        program = argv("write-file", self._base, str(source), path, mode, owner)
        if ran := await self._ran(path, program):
            raise HostError(f"{path} cannot be written: {ran}")

    async def remove(self, path: str) -> None:
        await asyncio.to_thread(resolve_host_path, self._root, path)
        folder, _, name = path.rpartition("/")
        if ran := await self._ran(path, argv("take-files", self._base, "files", folder, name)):
            raise HostError(f"{path} cannot be removed: {ran}")

    async def missing_folders(self, path: str) -> Sequence[str]:
        outer = [str(folder) for folder in reversed(PurePosixPath(path).parents)]
        there = await asyncio.to_thread(self._there, outer)
        return [folder for folder in outer if folder not in there]

    async def remove_empty(self, folders: Sequence[str]) -> None:
        there = await asyncio.to_thread(self._there, folders)
        for folder in reversed([path for path in folders if path in there]):
            outer, _, name = folder.rpartition("/")
            program = argv("take-files", self._base, "folders", outer, name)
            if ran := await self._ran(folder, program):
                raise HostError(f"{folder} cannot be removed: {ran}")

    def _there(self, folders: Sequence[str]) -> frozenset[str]:
        files = HostRoot(str(self._root))
        return frozenset(path for path in folders if files.is_dir(path))

    async def _ran(self, path: str, program: list[str]) -> str:
        """Run the program. Return the reason of its failure; "" if it succeeded."""
        try:
            ran = await self._commands.run(HostCommand(program, WRITE_SECONDS, _RIGHTS))
        except TimeoutError as error:
            raise HostError(f"{path}: its disk takes no write in {WRITE_SECONDS:g} s") from error
        check_refusal(f"files.path {path}", ran.code, ran.output)
        return "" if ran.code == 0 else ran.output or f"exit status {ran.code}"

    def _read(self, path: str) -> FileSnapshot | None:
        place = resolve_host_path(self._root, path)
        try:
            handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise HostError(f"{path}: {error.strerror}") from error
        with os.fdopen(handle, "rb") as file:
            known = os.fstat(handle)
            if not stat.S_ISREG(known.st_mode):
                raise HostError(f"{path} is no plain file")
            expected = Path(os.path.realpath(self._root)) / place.relative_to(self._root)
            if os.readlink(f"/proc/self/fd/{handle}") != str(expected):
                raise HostError(f"{path}: a folder on the way changed while it was read")
            content = file.read(MOST_BYTES + 1)
        owner = f"{self._name('passwd', known.st_uid)}:{self._name('group', known.st_gid)}"
        return FileSnapshot(content, f"0{stat.S_IMODE(known.st_mode):03o}", owner)

    def _name(self, table: str, number: int) -> str:
        """Return the name in the host's own table; the number if the table has none."""
        if number == 0:
            return "root"
        try:
            lines = (self._root / "etc" / table).read_text(errors="replace").splitlines()
        except OSError as error:
            raise HostError(f"/etc/{table}: {error.strerror}") from error
        for line in lines:
            fields = line.split(":")
            if len(fields) > 2 and fields[2] == str(number):
                return fields[0]
        return str(number)

    def _laid_down(self, content: bytes) -> Path:
        """Write the content to a file that only root can read: it may be a secret."""
        source = self._folder / os.urandom(8).hex()
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for earlier in self._folder.iterdir():
                earlier.unlink(missing_ok=True)
            handle = os.open(source, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
        except OSError as error:
            raise HostError(f"{self._folder}: {error.strerror}") from error
        return source
