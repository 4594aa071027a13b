"""Free space, and removable files: in fixed folders, never through a link or into a mount."""

import asyncio
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agent.host import HostError
from agent.host.files import HostRoot
from agent.host.real.commands import Commands, HostCommand
from agent.host.storage import DiskSpace, OldFile

DEEPEST = 6
MOST_FILES = 20_000
"""Maximum entries examined in one run; a folder with more is cleaned in several runs."""
VACUUM_SECONDS = 100.0


@dataclass(frozen=True, slots=True)
class CleanupFolder:
    """A folder to clean.

    folder: path
    pattern: must match the whole name of a removable file
    spared: subfolders that are skipped
    newest: number of newest files that are not removed
    """

    folder: str
    pattern: str
    spared: frozenset[str] = frozenset()
    newest: int = 0


_ROTATED = (
    r".+\.(?:[0-9]{1,3}|old)(?:\.(?:gz|xz|bz2|zst))?"
    r"|.+[-.][0-9]{8}(?:-?[0-9]{1,10})?(?:\.log)?(?:\.(?:gz|xz|bz2|zst))?"
    r"|.+\.log\.(?:gz|xz|bz2|zst)"
)
PLACES: Mapping[str, Sequence[CleanupFolder]] = {
    # Audit logs are kept by law, the journal is vacuumed, pods' logs are a separate target.
    "logs": (
        CleanupFolder("/var/log", _ROTATED, frozenset({"audit", "journal", "pods", "containers"})),
    ),
    "containerLogs": (CleanupFolder("/var/log/pods", r".+\.log\.[0-9]{8}-[0-9]{6}(?:\.gz)?"),),
    # The newest dump may still be needed for an analysis.
    "crashDumps": (
        CleanupFolder("/var/crash", r".+", newest=1),
        CleanupFolder("/var/lib/systemd/coredump", r"core\..+", newest=1),
    ),
}


class RealDisks:
    """Implements agent.host.ports.Disks.

    files: of the host; a Pod has the folders of `places` writable below the same root
    places: folders by target of CleanDisk
    """

    def __init__(
        self,
        commands: Commands,
        files: HostRoot,
        places: Mapping[str, Sequence[CleanupFolder]] = PLACES,
    ) -> None:
        self._commands, self._files = commands, files
        self._proc = files.path("/proc")
        self._places = places

    async def space(self, path: str) -> DiskSpace:
        try:
            disk = await asyncio.to_thread(self._files.statvfs, path)
        except OSError as error:
            raise HostError(f"{path}: {error.strerror}") from error
        total, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
        return DiskSpace(total, free, disk.f_files, disk.f_favail)

    async def removable(self, target: str) -> list[OldFile]:
        return await asyncio.to_thread(self._removable, target)

    def _removable(self, target: str) -> list[OldFile]:
        opened = open_files(self._proc)
        removable: list[OldFile] = []
        for place in self._places[target]:
            files = [file for file, key in _walk(place, self._files) if key not in opened]
            files.sort(key=lambda file: file.modified)
            removable += files[: len(files) - place.newest] if place.newest else files
        return sorted(removable, key=lambda file: file.modified)

    async def remove(self, file: OldFile) -> bool:
        return await asyncio.to_thread(self._remove, file)

    def _remove(self, file: OldFile) -> bool:
        """Remove the file. Its path is walked again, folder by folder: no folder may be a link
        by now.
        """
        for places in self._places.values():
            for place in places:
                if file.path.startswith(f"{place.folder}/"):
                    below = file.path.removeprefix(f"{place.folder}/").split("/")
                    folder = str(self._files.path(place.folder, last=False))
                    return _unlink(folder, below, file, self._proc)
        raise HostError(f"{file.path} is in none of the folders that are cleaned")

    async def vacuum_journal(self, keep: int) -> None:
        argv = ["journalctl", "--quiet", "--rotate", f"--vacuum-size={keep}"]
        capabilities = ("CAP_DAC_OVERRIDE",)  # journal files belong to a separate group
        await self._commands.checked(HostCommand(argv, VACUUM_SECONDS, capabilities))


Key = tuple[int, int]
"""Device and inode."""


def open_files(proc: Path) -> frozenset[Key]:
    """Return all regular files that any process holds open. Raises HostError if one process
    cannot be read.
    """
    keys: set[Key] = set()
    for entry in os.listdir(proc):
        if not entry.isdecimal():
            continue
        folder = proc / entry / "fd"
        try:
            names = os.listdir(folder)
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process has ended
        except OSError as error:
            raise HostError(
                f"{folder}: {error.strerror}: without it nobody knows which files are open"
            ) from error
        for name in names:
            try:
                known = os.stat(folder / name)
            except OSError:
                continue
            if stat.S_ISREG(known.st_mode):
                keys.add((known.st_dev, known.st_ino))
    return frozenset(keys)


def _walk(place: CleanupFolder, files: HostRoot) -> Iterator[tuple[OldFile, Key]]:
    wanted = re.compile(place.pattern)
    try:
        root = os.open(
            files.path(place.folder, last=False), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        )
    except OSError:
        return  # the folder does not exist on this host
    try:
        mount, remaining = _mount_of(root), [MOST_FILES]
        yield from _below(root, place.folder, place, wanted, mount, DEEPEST, remaining)
    finally:
        os.close(root)


def _below(
    handle: int,
    path: str,
    place: CleanupFolder,
    wanted: re.Pattern[str],
    mount: str,
    deep: int,
    remaining: list[int],
) -> Iterator[tuple[OldFile, Key]]:
    for name in sorted(os.listdir(handle)):
        remaining[0] -= 1
        if remaining[0] < 0:
            return
        try:
            known = os.stat(name, dir_fd=handle, follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISREG(known.st_mode) and known.st_nlink == 1 and wanted.fullmatch(name):
            at = datetime.fromtimestamp(known.st_mtime, UTC)
            file = OldFile(f"{path}/{name}", known.st_blocks * 512, at, known.st_ino)
            yield file, (known.st_dev, known.st_ino)
        elif stat.S_ISDIR(known.st_mode) and deep and name not in place.spared:
            inner = _enter(handle, name, mount)
            if inner is not None:
                try:
                    yield from _below(
                        inner, f"{path}/{name}", place, wanted, mount, deep - 1, remaining
                    )
                finally:
                    os.close(inner)


def _enter(handle: int, name: str, mount: str) -> int | None:
    """Open the folder `name`; None if it is a link, is gone, or is another mount."""
    try:
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
    except OSError:
        return None
    if _mount_of(inner) == mount:
        return inner
    os.close(inner)
    return None


def _mount_of(handle: int) -> str:
    """Return the kernel's mount ID. A bind mount of the same device has a different one."""
    with open(f"/proc/self/fdinfo/{handle}", encoding="ascii") as file:
        for line in file:
            if line.startswith("mnt_id:"):
                return line.split()[1]
    raise HostError("the kernel does not tell which mount a folder belongs to")


def _unlink(folder: str, below: Sequence[str], file: OldFile, proc: Path) -> bool:
    try:
        handle: int | None = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    assert handle is not None
    mount = _mount_of(handle)
    try:
        for name in below[:-1]:
            inner = _enter(handle, name, mount)
            os.close(handle)
            handle = inner
            if handle is None:
                return False
        known = os.stat(below[-1], dir_fd=handle, follow_symlinks=False)
        same = stat.S_ISREG(known.st_mode) and known.st_ino == file.inode
        if not same or (known.st_dev, known.st_ino) in open_files(proc):
            return False
        os.unlink(below[-1], dir_fd=handle)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise HostError(f"{file.path}: {error.strerror}") from error
    finally:
        if handle is not None:
            os.close(handle)
    return True
