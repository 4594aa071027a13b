"""Filesystems that fill up: space, counted for users as in df(1), and inodes."""

import os
from collections.abc import Callable, Sequence

from agent.detectors.checks import Finding, Findings
from agent.detectors.checks.steady import is_exceeded
from agent.host.files import HostRoot

CONDITION = "DiskProblem"
MARGIN = 3.0
"""Percent points below a limit at which the fault is over."""


def usage(have: os.statvfs_result) -> tuple[float, float]:
    """Return the used percentages of space and inodes; 0 for inodes that are not counted."""
    usable = have.f_blocks - have.f_bfree + have.f_bavail
    space = 100.0 * (1 - have.f_bavail / usable) if usable else 0.0
    inodes = 100.0 * (1 - have.f_favail / have.f_files) if have.f_files else 0.0
    return space, inodes


class Space:
    """Checks filesystems. folders: each filesystem of them is checked once; missing ones are
    ignored.
    """

    def __init__(
        self,
        folders: Sequence[str],
        used_pct: float,
        inodes_pct: float,
        root: str = "/",
        usage: Callable[[os.statvfs_result], tuple[float, float]] = usage,
    ) -> None:
        self._folders, self._files, self._usage = tuple(folders), HostRoot(root), usage
        self._limits = {"space": used_pct, "inodes": inodes_pct}
        self._was: dict[tuple[int, str], bool] = {}

    def inspect(self) -> Findings:
        """Check the filesystems. Raises OSError."""
        worst: tuple[float, Finding] | None = None
        was: dict[tuple[int, str], bool] = {}
        for device, folder in self._filesystems().items():
            shares = self._usage(self._files.statvfs(folder))
            for what, share in zip(("space", "inodes"), shares, strict=True):
                limit, key = self._limits[what], (device, what)
                was[key] = is_exceeded(share, limit, self._was.get(key), MARGIN)
                if was[key] and (worst is None or share - limit > worst[0]):
                    worst = share - limit, _full(what, folder, share, limit)
        self._was = was
        if worst is not None:
            return {CONDITION: worst[1]}
        return {CONDITION: Finding(False, "NoDiskProblem", "every filesystem has room")}

    def _filesystems(self) -> dict[int, str]:
        folders: dict[int, str] = {}
        for folder in self._folders:
            try:
                device = self._files.stat(folder).st_dev
            except (FileNotFoundError, NotADirectoryError):
                continue
            folders.setdefault(device, folder)
        return folders


def _full(what: str, folder: str, share: float, limit: float) -> Finding:
    reason = {"space": "DiskNearlyFull", "inodes": "InodesNearlyUsedUp"}[what]
    message = f"{what} of the filesystem of {folder}: {share:.0f} % in use, limit {limit:g} %"
    return Finding(True, reason, message)
