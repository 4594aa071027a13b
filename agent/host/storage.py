"""Ports to a host's file systems: how full they are, what may go, and how they are mounted.

As all ports (agent.host.ports): looked at before they are asked to act, each act one call, and
HostError when the host does not do or tell what is asked.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Of a file system: bytes, and files that it can hold (0: as many as there is room for).

    free  what services may use
    """

    total: int
    free: int
    files: int = 0
    files_free: int = 0

    @property
    def free_percent(self) -> float:
        """Of what is shorter: bytes or files."""
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
        """Files that may go: rotated logs, crash dumps or containerLogs, oldest first.

        Only of a fixed list of folders, no links, nothing across mount points, nothing open.
        """
        ...

    async def remove(self, file: OldFile) -> bool:
        """False if it is not the same file any more, is open, or lies elsewhere by now."""
        ...

    async def vacuum_journal(self, keep: int) -> None:
        """Drop archived journal files until `keep` bytes are left."""
        ...


@dataclass(frozen=True, slots=True)
class HostMount:
    """source     device
    read_only  now
    meant_so   read-only by the host's own configuration
    """

    point: str
    source: str
    type: str
    read_only: bool
    meant_so: bool


class Filesystems(Protocol):
    async def mount(self, point: str) -> HostMount | None:
        """The mount at exactly this place, None if nothing is mounted there."""
        ...

    async def damage(self, mount: HostMount) -> str:
        """What speaks against writing to it, "" if it is clean and its device answers."""
        ...

    async def remount_writable(self, mount: HostMount) -> None: ...

    async def remount_read_only(self, mount: HostMount) -> None: ...

    async def try_write(self, mount: HostMount) -> None:
        """Write a small file, flush it to the disk, and take it away."""
        ...
