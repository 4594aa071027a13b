"""Stores bundles in a folder: a volume of the operator, or a share that people mount.

FOLDER/AGENT/NAME.tar.gz
"""

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path

from remedy.bundles.port import MOST_BYTES, PER_HOST, NoBundle, StoreFailed

PART = 256 * 1024


class FolderStore:
    """Implements BundleStore. The oldest bundles of a host are deleted first; a nearly full disk
    takes none.
    """

    def __init__(self, folder: Path, per_host: int = PER_HOST) -> None:
        self._folder, self._per_host = folder, per_host

    async def put(self, agent: str, name: str, file: Path) -> str:
        try:
            return str(await asyncio.to_thread(self._put, agent, name, file))
        except OSError as error:
            raise StoreFailed(f"{self._folder}: {error.strerror or error}") from error

    def _put(self, agent: str, name: str, file: Path) -> Path:
        home = self._folder / agent
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        disk = os.statvfs(home)
        if disk.f_bavail * disk.f_frsize < MOST_BYTES + file.stat().st_size:
            raise OSError(28, f"less than {MOST_BYTES} bytes would be left")
        unfinished = home / f".{name}.new"
        try:
            shutil.copyfile(file, unfinished)
            os.chmod(unfinished, 0o600)
            os.replace(unfinished, home / name)
        finally:
            unfinished.unlink(missing_ok=True)  # a partial file only wastes disk space
        self._prune(home)
        return home / name

    def _prune(self, home: Path) -> None:
        bundles = sorted(home.glob("*.tar.gz"), key=lambda p: p.stat().st_mtime_ns, reverse=True)
        for path in bundles[self._per_host :]:
            path.unlink(missing_ok=True)

    async def get(self, agent: str, name: str) -> AsyncGenerator[bytes]:
        try:
            with await asyncio.to_thread((self._folder / agent / name).open, "rb") as file:
                while part := await asyncio.to_thread(file.read, PART):
                    yield part
        except FileNotFoundError as error:
            raise NoBundle(f"host {agent} has no bundle {name}") from error
        except OSError as error:
            raise StoreFailed(f"{self._folder}: {error.strerror or error}") from error

    async def check(self) -> None:
        try:
            await asyncio.to_thread(self._check)
        except OSError as error:
            raise StoreFailed(f"{self._folder}: {error.strerror or error}") from error

    def _check(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = self._folder / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
