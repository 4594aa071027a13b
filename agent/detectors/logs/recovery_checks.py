"""Checks that conditions name: is the fault `key` over? True, False, or None: cannot be told.

Blocking and short. `root` is prefixed to every path, as in agent.probes.readings.
"""

from collections.abc import Callable
from pathlib import Path

Check = Callable[[str, str], bool | None]
"""(root, key) to whether the fault is over."""


def task_goes_on(root: str, key: str) -> bool | None:
    """The task with this PID is gone, or not in uninterruptible sleep any more."""
    if not key.isdecimal():
        return None
    try:
        text = Path(root, "proc", key, "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return True if Path(root, "proc/self").exists() else None
    except OSError:
        return None
    # The name stands in brackets and may hold anything.
    fields = text.rpartition(")")[2].split()
    return fields[0] != "D" if fields else None


def filesystem_writable(root: str, key: str) -> bool | None:
    """No filesystem of this device is mounted read-only, or it is mounted no more."""
    mounted = _mounts_of(root, key)
    if mounted is None:
        return None
    return not any({"ro", "emergency_ro"} & options for options in mounted)


def filesystem_unmounted(root: str, key: str) -> bool | None:
    """This device is mounted nowhere."""
    mounted = _mounts_of(root, key)
    return None if mounted is None else not mounted


def _mounts_of(root: str, device: str) -> list[set[str]] | None:
    """The options of the superblocks of a device that the kernel names so; None: unknown.

    Source: proc_pid_mountinfo(5). `ro` of a mount alone is somebody's wish; of the superblock it
    is the filesystem's state.
    """
    if not device or "/" in device or device.startswith("."):
        return None
    try:
        number = Path(root, "sys/class/block", device, "dev").read_text().strip()
    except FileNotFoundError:
        return [] if Path(root, "sys/class/block").is_dir() else None
    except OSError:
        return None
    try:
        table = Path(root, "proc/1/mountinfo").read_text(errors="replace")
    except OSError:
        return None
    options = []
    for line in table.splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if len(fields) > 2 and len(rest) > 2 and fields[2] == number:
            options.append(set(rest[2].split(",")))
    return options


CHECKS: dict[str, Check] = {
    "task-goes-on": task_goes_on,
    "filesystem-writable": filesystem_writable,
    "filesystem-unmounted": filesystem_unmounted,
}
