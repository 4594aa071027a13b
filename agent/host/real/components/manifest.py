"""Manifest of a tree of files, and its comparison with the disk."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from agent.host import Contraindicated, HostError

MOST_FILES = 50_000
_PART = 256 * 1024
_SPECIAL = "a device, pipe or socket, which no component brings"
WHITEOUT = ".wh."
"""Prefix of the names by which a layer of a container image deletes files; not valid in an
artefact.
"""


class FileOf(msgspec.Struct, frozen=True):
    """One entry of a tree.

    sha256: of a file's content, or of a link's target; "" for a folder
    """

    path: str
    sha256: str = ""
    folder: bool = False


class Stamp(msgspec.Struct, frozen=True):
    """State of a file when it was installed. The digest is compared only if size or time
    differs; another mode is a change.
    """

    sha256: str = ""
    size: int = -1
    mode: int = -1
    changed_at: int = -1


def manifest(tree: Path) -> list[FileOf]:
    """List the entries, each folder before its contents.

    Raises HostError; Contraindicated for entries that are not permitted.
    """
    return list(_entries(tree, ""))


def _entries(folder: Path, below: str) -> Iterator[FileOf]:
    for number, entry in enumerate(sorted(os.scandir(folder), key=lambda item: item.name)):
        path = f"{below}{entry.name}"
        if number > MOST_FILES:
            raise Contraindicated(f"{below}: more than {MOST_FILES} files")
        if entry.name.startswith(WHITEOUT):
            raise Contraindicated(f"{path} is of a container image; an artefact only brings files")
        if entry.is_dir(follow_symlinks=False):
            yield FileOf(path, folder=True)
            yield from _entries(Path(entry.path), f"{path}/")
        elif entry.is_symlink() or entry.is_file():
            yield FileOf(path, _digest(Path(entry.path)))
        else:
            raise Contraindicated(f"{path} is {_SPECIAL}")


def stamp(path: Path, of: FileOf) -> Stamp:
    try:
        known = os.lstat(path)
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}") from error
    return Stamp(of.sha256, known.st_size, known.st_mode, known.st_mtime_ns)


def changed(folder: Path, files: Mapping[str, Stamp]) -> list[str]:
    """List the paths that are missing or differ from their installed state."""
    return [path for path, known in files.items() if _differs(folder / path, known)]


def _differs(path: Path, was: Stamp) -> bool:
    try:
        known = os.lstat(path)
        if (known.st_size, known.st_mode, known.st_mtime_ns) == (
            was.size,
            was.mode,
            was.changed_at,
        ):
            return False
        return known.st_mode != was.mode or _digest(path) != was.sha256
    except OSError:
        return True


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    if stat.S_ISLNK(os.lstat(path).st_mode):
        digest.update(os.fsencode(os.readlink(path)))
        return digest.hexdigest()
    with path.open("rb") as file:
        while part := file.read(_PART):
            digest.update(part)
    return digest.hexdigest()
