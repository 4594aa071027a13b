"""A cgroup for each disposable host, in every hierarchy of this machine.

Several systemd-nspawn in one cgroup would share one `payload` group below it and fight over it.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL

ROOT = Path("/sys/fs/cgroup")


def _here() -> list[Path]:
    """The cgroup directories that this process is in: several with v1, one with v2."""
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            base = ROOT / "unified" if (ROOT / "unified").is_dir() else ROOT
        else:
            base = ROOT / controllers.removeprefix("name=")
        if base.is_dir():
            found.append(base / path.lstrip("/"))
    return found


def make_groups(name: str) -> list[Path]:
    """Make a group `name` below ours in every hierarchy; the directories made."""
    made = []
    for parent in _here():
        group = parent / name
        group.mkdir(exist_ok=True)
        for key in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group, which refuses processes
            if (group / key).exists() and not (group / key).read_text().strip():
                (group / key).write_text((parent / key).read_text())
        made.append(group)
    return made


def end_groups(groups: Sequence[Path], seconds: float = 5.0) -> None:
    """SIGKILL what still runs in groups of ours, and wait until it is gone."""
    end = time.monotonic() + seconds
    while (pids := processes(groups)) and time.monotonic() < end:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, SIGKILL)
        for group in groups:  # what is frozen takes no signal
            with suppress(OSError):
                (group / "freezer.state").write_text("THAWED")
        time.sleep(0.05)


def processes(groups: Sequence[Path]) -> set[int]:
    """Those in the groups and in what was made below them."""
    found: set[int] = set()
    for group in groups:
        for procs in [group / "cgroup.procs", *group.rglob("cgroup.procs")]:
            with suppress(OSError):
                found.update(int(pid) for pid in procs.read_text().split())
    return found


def remove_groups(groups: Sequence[Path]) -> None:
    """Remove groups and what was made below them; one that still has processes stays."""
    for group in groups:
        below = sorted(group.rglob("*"), key=lambda path: -len(path.parts))
        for folder in [*below, group]:
            if folder.is_dir():
                with suppress(OSError):
                    folder.rmdir()
