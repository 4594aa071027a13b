"""Checks whether the fault `key` of a condition is over: True, False, or None if unknown.

They block for a short time. `root` is prefixed to every path, as in agent.probes.readings.
"""

from collections.abc import Callable

from agent.host.files import HostRoot

Check = Callable[[str, str], bool | None]
"""(root, key) to whether the fault is over."""


def task_goes_on(root: str, key: str) -> bool | None:
    """Return True if the task with this PID is gone or has left uninterruptible sleep."""
    if not key.isdecimal():
        return None
    files = HostRoot(root)
    try:
        text = files.read_text(f"proc/{key}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return True if files.exists("proc/self") else None
    except OSError:
        return None
    # The name is in brackets and may contain anything.
    fields = text.rpartition(")")[2].split()
    return fields[0] != "D" if fields else None


def filesystem_writable(root: str, key: str) -> bool | None:
    """Return True if no filesystem of this device is mounted read-only; also if none is mounted."""
    mounted = _mounts_of(root, key)
    if mounted is None:
        return None
    return not any({"ro", "emergency_ro"} & options for options in mounted)


def filesystem_unmounted(root: str, key: str) -> bool | None:
    """Return True if the device is not mounted."""
    mounted = _mounts_of(root, key)
    return None if mounted is None else not mounted


def _mounts_of(root: str, device: str) -> list[set[str]] | None:
    """Return the superblock options of a device's mounts; None if they are unknown.

    Source: proc_pid_mountinfo(5). `ro` of a mount may be intended; `ro` of the superblock is the
    state of the filesystem.
    """
    if not device or "/" in device or device.startswith("."):
        return None
    files = HostRoot(root)
    try:
        number = files.read_text(f"sys/class/block/{device}/dev").strip()
    except FileNotFoundError:
        return [] if files.is_dir("sys/class/block") else None
    except OSError:
        return None
    try:
        table = files.read_text("proc/1/mountinfo")
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
