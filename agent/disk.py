"""File operations that survive a power cut, behind a port that tests replace.

A write is durable once its file is flushed. A new or removed name is durable once its folder is
flushed. A rename within a folder shows the old or the new file, never a mixture, if the new file
was flushed before.
"""

import os
from pathlib import Path
from typing import Protocol


class Disk(Protocol):
    """File operations. All raise OSError."""

    def make_folder(self, folder: Path) -> None:
        """Create the folder and its parents, accessible to its owner alone, durably."""
        ...

    def names(self, folder: Path) -> list[str]: ...

    def read(self, path: Path) -> bytes: ...

    def write(self, path: Path, content: bytes) -> None:
        """Write the whole file; a new one is readable by its owner alone. Not durable before
        `flush`.
        """
        ...

    def flush(self, path: Path) -> None:
        """Make a file's content, or a folder's names, durable."""
        ...

    def rename(self, path: Path, to: Path) -> None: ...

    def remove(self, path: Path) -> None:
        """Remove the file. A missing file is no error."""
        ...


class RealDisk:
    def make_folder(self, folder: Path) -> None:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in missing or [folder]:
            self.flush(path.parent)

    def names(self, folder: Path) -> list[str]:
        return os.listdir(folder)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def write(self, path: Path, content: bytes) -> None:
        with open(path, "wb", opener=_private) as file:
            file.write(content)

    def flush(self, path: Path) -> None:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, path: Path, to: Path) -> None:
        os.replace(path, to)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def replace(disk: Disk, path: Path, content: bytes, *, flushed: bool = True) -> None:
    """Replace a file atomically; durable on return.

    flushed: False: readers see the old or the new content, but a power cut may lose both

    Raises OSError: then the file has the old or the new content.
    """
    unfinished = path.with_name(f".{path.name}.new")
    disk.write(unfinished, content)
    if flushed:
        disk.flush(unfinished)
    disk.rename(unfinished, path)
    if flushed:
        disk.flush(path.parent)
