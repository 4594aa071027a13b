"""Files that survive a power cut, behind a port: what is promised is what tests take away.

A write is safe once its file is flushed; a new name, or one that was taken away, once its folder
is. A rename within a folder shows the old file or the new one, never a mixture, if the new one was
flushed before.
"""

import os
from pathlib import Path
from typing import Protocol


class Disk(Protocol):
    """All raise OSError."""

    def make_folder(self, folder: Path) -> None:
        """With what is missing above it, readable by us alone, safe from a power cut."""
        ...

    def names(self, folder: Path) -> list[str]: ...

    def read(self, path: Path) -> bytes: ...

    def write(self, path: Path, content: bytes) -> None:
        """The whole file, readable by us alone if it is new; not safe before `flush`."""
        ...

    def flush(self, path: Path) -> None:
        """A file's content, or a folder's names."""
        ...

    def rename(self, path: Path, to: Path) -> None: ...

    def remove(self, path: Path) -> None:
        """Nothing if it is gone."""
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
    """The file has the old content or the new one whenever the power goes; safe on return.

    flushed  False: whoever reads it sees one of both, but a power cut may leave neither

    Raises OSError: then it may have either.
    """
    unfinished = path.with_name(f".{path.name}.new")
    disk.write(unfinished, content)
    if flushed:
        disk.flush(unfinished)
    disk.rename(unfinished, path)
    if flushed:
        disk.flush(path.parent)
