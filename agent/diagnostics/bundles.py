"""Folder of bundles on this host. Number and size are limited; the oldest bundle is removed first.

Nothing is saved on a disk that is nearly full.
"""

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.host import HostError
from agent.patience import Patience
from agent.probes import CannotAnswer

MOST_BUNDLES = 8
MOST_BYTES = 64 * 1024 * 1024
"""Maximum bytes of all bundles together, and the free bytes required to write another one."""
WRITE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Bundles:
    """The folder of bundles on this host."""

    folder: Path
    patience: Patience = field(default_factory=Patience)

    async def save(self, name: str, files: Mapping[str, str], at: float = 0.0) -> Path:
        """Write a bundle and return its path. Raises HostError.

        files: text by file name
        at: modification time of the files, in seconds since the epoch
        """
        try:
            return await self.patience.wait_for(
                lambda: self._save(name, files, at), WRITE_SECONDS, f"bundle in {self.folder}"
            )
        except CannotAnswer as error:
            raise HostError(str(error)) from error

    def _save(self, name: str, files: Mapping[str, str], at: float) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        disk = os.statvfs(self.folder)
        if disk.f_bavail * disk.f_frsize < MOST_BYTES:
            raise OSError(28, f"less than {MOST_BYTES} bytes are free")
        path, unfinished = self.folder / f"{name}.tar.gz", self.folder / f".{name}.new"
        import tarfile  # loads every compression; bundles are rare

        with tarfile.open(unfinished, "w:gz") as bundle:
            for file, text in files.items():
                data = text.encode()
                about = tarfile.TarInfo(f"{name}/{file}")
                about.mtime = int(at)
                about.size, about.mode = len(data), 0o600
                bundle.addfile(about, io.BytesIO(data))
        os.chmod(unfinished, 0o600)
        os.replace(unfinished, path)
        self._prune(path)
        return path

    def _prune(self, newest: Path) -> None:
        for partial in self.folder.glob(".*.new"):
            partial.unlink()
        count = total_bytes = 0
        known = sorted(self.folder.glob("*.tar.gz"), key=lambda p: p.stat().st_mtime, reverse=True)
        for path in [newest, *(p for p in known if p != newest)]:
            count, total_bytes = count + 1, total_bytes + path.stat().st_size
            if path != newest and (count > MOST_BUNDLES or total_bytes > MOST_BYTES):
                path.unlink()
