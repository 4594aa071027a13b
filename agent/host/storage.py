"""Ports to the host's file systems: space, files that can be removed, and mounts.

As with all ports (`agent.host.ports`), the state is read before an action is requested, each action
is one call, and a method raises HostError if the host does not do or report what is asked.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Space of a file system in bytes, and its number of files.

    free: bytes available to services
    files: number of files that it can hold; 0: limited by the space alone
    """

    total: int
    free: int
    files: int = 0
    files_free: int = 0

    @property
    def free_percent(self) -> float:
        """Free share in percent, of bytes or of files, whichever is lower."""
        of_bytes = 100 * self.free / self.total if self.total else 0.0
        return min(of_bytes, 100 * self.files_free / self.files) if self.files else of_bytes


@dataclass(frozen=True, slots=True)
class OldFile:
    path: str
    size: int
    modified: datetime
    inode: int = 0


class Disks(Protocol):
    async def space(self, path: str) -> DiskSpace: ...

    async def removable(self, target: str) -> list[OldFile]:
        """List the files that can be removed, oldest first.

        Only files in a fixed list of folders count: no links, no files across mount points, no open
        files.

        target: `logs` (rotated logs), `crashDumps` or `containerLogs`
        """
        ...

    async def remove(self, file: OldFile) -> bool:
        """Remove the file. False if it has been replaced or moved, or is open."""
        ...

    async def vacuum_journal(self, keep: int) -> None:
        """Remove archived journal files until `keep` bytes are left."""
        ...


@dataclass(frozen=True, slots=True)
class HostMount:
    """A mount of the host.

    source: device
    read_only: whether it is read-only now
    meant_so: whether the host's own configuration makes it read-only
    """

    point: str
    source: str
    type: str
    read_only: bool
    meant_so: bool


class Filesystems(Protocol):
    async def mount(self, point: str) -> HostMount | None:
        """Return the mount at exactly this path; None if nothing is mounted there."""
        ...

    async def damage(self, mount: HostMount) -> str:
        """Reason not to write to the mount; "" if it is clean and its device answers."""
        ...

    async def remount_writable(self, mount: HostMount) -> None: ...

    async def remount_read_only(self, mount: HostMount) -> None: ...

    async def try_write(self, mount: HostMount) -> None:
        """Write a small file, flush it to the disk, and remove it."""
        ...
