"""Filesystems that the kernel made read-only after an error.

A filesystem that is mounted read-only on purpose has a read-only mount. The kernel made it
read-only if the mount is writable and the filesystem takes no writes, or if it took writes before
under the same mount. Source: proc_pid_mountinfo(5). Newer kernels show ext4's emergency_ro or
shutdown instead of ro.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agent.detectors.checks import Finding, Findings
from agent.host.files import HostRoot

CONDITION = "DiskReadonly"
TABLE = "proc/1/mountinfo"
"""PID 1 sees the host's mounts. A hardened service sees others, some read-only on purpose."""
ON_DISKS = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs", "reiserfs", "zfs"})
_TURNED = frozenset({"ro", "emergency_ro", "shutdown"})
_ESCAPED = re.compile(r"\\([0-7]{3})")
NAMED = 3
"""Mount points that a message names; a node may have hundreds."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount. writable: the mount allows writes; turned: the filesystem takes no writes."""

    id: str
    device: str
    point: str
    kind: str
    writable: bool
    turned: bool


class Mounts:
    """Checks mounts. Remembers which filesystems took writes."""

    def __init__(self, root: str = "/", table: str = TABLE) -> None:
        self.path = HostRoot(root).path(table)
        self._took: frozenset[tuple[str, str]] = frozenset()

    def inspect(self) -> Findings:
        """Check the mounts. Raises OSError."""
        text = self.path.read_text(encoding="utf-8", errors="replace")
        mounts = [mount for mount in parse(text) if mount.kind in ON_DISKS]
        turned = [
            mount
            for mount in mounts
            if mount.turned and (mount.writable or (mount.id, mount.device) in self._took)
        ]
        here = frozenset((mount.id, mount.device) for mount in mounts)
        took = {(mount.id, mount.device) for mount in mounts if not mount.turned}
        self._took = (self._took & here) | took
        return {CONDITION: judge(turned)}


def judge(turned: list[Mount]) -> Finding:
    if not turned:
        return Finding(False, "FilesystemIsNotReadOnly", "no filesystem was turned read-only")
    places = sorted({f"{mount.point} ({mount.kind}, {mount.device})" for mount in turned})
    more = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
    message = f"takes no writes any more: {', '.join(places[:NAMED])}{more}"
    return Finding(True, "FilesystemIsReadOnly", message)


def parse(text: str) -> Iterator[Mount]:
    """Parse a mountinfo table; skip truncated or unknown lines."""
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        fields, own = before.split(" "), after.split(" ")
        if not dash or len(fields) < 6 or len(own) < 3:
            continue
        yield Mount(
            id=fields[0],
            device=fields[2],
            point=_ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[4]),
            kind=own[0],
            writable="rw" in fields[5].split(","),
            turned=bool(_TURNED & set(own[2].split(","))),
        )
