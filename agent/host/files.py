"""Files of the host, wherever its root is mounted.

Paths are those of the host. The service finds them at `/`; a Pod finds them below the folder where
the DaemonSet mounts the host's root. Links resolve within that root: an absolute link of the host,
such as kubelet's current certificate, would otherwise lead into the container.
"""

import errno
import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MOST_LINKS = 40
OWN_ROOT = "/"
SYSTEM_BUS = "/run/dbus/system_bus_socket"
_KERNEL = ("proc/", "sys/")
"""Links there lead nowhere else in the file system, or are the kernel's own, which stay as is."""


@dataclass(frozen=True, slots=True)
class HostRoot:
    """Reads files of the host. Methods block, and raise OSError.

    root: where the host's root is mounted
    """

    root: str = OWN_ROOT

    @property
    def mounted(self) -> bool:
        """Whether the host's root is not the agent's own, as in a Pod."""
        return self.root != OWN_ROOT

    def path(self, path: str, *, last: bool = True) -> Path:
        """Return where the agent finds the host's file. A path without a slash starts at the
        root.

        last: False: the last part stays as it is, even if it is a link
        """
        below = path.lstrip("/")
        if not self.mounted or f"{below}/".startswith(_KERNEL):
            return Path(self.root, below)
        return Path(self.root, resolve_links(Path(self.root), path, last=last).lstrip("/"))

    def read_text(self, path: str) -> str:
        return self.path(path).read_text(encoding="utf-8", errors="replace")

    def read_bytes(self, path: str) -> bytes:
        return self.path(path).read_bytes()

    def exists(self, path: str) -> bool:
        return self.path(path).exists()

    def is_dir(self, path: str) -> bool:
        return self.path(path).is_dir()

    def list_names(self, path: str) -> list[str]:
        return os.listdir(self.path(path))

    def statvfs(self, path: str) -> os.statvfs_result:
        return os.statvfs(self.path(path))

    def stat(self, path: str) -> os.stat_result:
        return os.stat(self.path(path))

    def open_handle(self, path: str, flags: int) -> int:
        return os.open(self.path(path), flags | os.O_CLOEXEC)

    def glob(self, pattern: str) -> list[str]:
        """Return the host's paths that match, sorted."""
        fixed, names = _split_pattern(pattern)
        folder = self.path(fixed)
        matches = glob.glob(str(Path(glob.escape(str(folder)), names)))
        return sorted(os.path.join(fixed, os.path.relpath(match, folder)) for match in matches)

    def bus_address(self) -> str | None:
        """Return the D-Bus address of the host's system bus; None for the default one."""
        return f"unix:path={self.path(SYSTEM_BUS)}" if self.mounted else None


OWN_FILES = HostRoot()
"""Files of a host whose root is the agent's own."""


def resolve_links(root: Path, path: str, *, last: bool = True) -> str:
    """Return the host's path without links on the way. Parts that do not exist stay.

    root: where the host's root is mounted
    last: whether the last part is resolved, too

    Raises OSError for too many links.
    """
    parts, known, links = _parts(path), "", 0
    while parts:
        here = f"{known}/{parts.pop(0)}"
        target = read_link(root, here) if parts or last else ""
        if not target:
            known = here
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, f"more than {MOST_LINKS} links on the way", path)
        parts = [*_parts(target if target.startswith("/") else f"{known}/{target}"), *parts]
        known = ""
    return known or "/"


def read_link(root: Path, path: str) -> str:
    """Return the target of the host's link; "" for anything else."""
    try:
        return os.readlink(root / path.lstrip("/"))
    except OSError:
        return ""


def _parts(path: str) -> list[str]:
    return [part for part in os.path.normpath(path).strip("/").split("/") if part not in ("", ".")]


def _split_pattern(pattern: str) -> tuple[str, str]:
    """Split into the folders without wildcards, and the rest."""
    parts: Sequence[str] = pattern.split("/")
    fixed = next((n for n, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    return "/".join(parts[:fixed]) or "/", "/".join(parts[fixed:])
