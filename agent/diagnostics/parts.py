"""Parts of a bundle, by their names in the API: commands, each part's output in one file.

The agent reads no files itself: a `cat` that hangs on a dead disk can be abandoned.
"""

from collections.abc import Mapping, Sequence

PART_BYTES = 1024 * 1024
PART_SECONDS = 20.0
Command = Sequence[str]

_JOURNAL = ("journalctl", "--no-pager", "--output=short-iso-precise", "--boot")
_RUNTIMES = ("containerd.service", "crio.service", "docker.service")
_DF = ("df", "--local", "--exclude-type=overlay", "--exclude-type=squashfs")


def _service(*units: str) -> tuple[Command, ...]:
    follow = tuple(word for unit in units for word in ("--unit", unit))
    return (
        ("systemctl", "status", "--no-pager", "--full", "--lines=0", *units),
        (*_JOURNAL, "--lines=2000", *follow),
    )


def _cat(*paths: str) -> tuple[Command, ...]:
    return tuple(("cat", path) for path in paths)


PARTS: Mapping[str, Sequence[Command]] = {
    "dmesg": ((*_JOURNAL, "--dmesg", "--lines=2000"),),
    "journal": ((*_JOURNAL, "--lines=4000"),),
    "runtime": _service(*_RUNTIMES),
    "kubelet": _service("kubelet.service"),
    "network": (
        ("ip", "-s", "address"),
        ("ip", "route"),
        ("ip", "neighbour"),
        ("ss", "-s"),
        *_cat("/etc/resolv.conf", "/proc/net/sockstat"),
    ),
    "units": (
        ("systemctl", "list-units", "--failed", "--no-pager", "--plain", "--full", "--no-legend"),
        ("systemctl", "list-jobs", "--no-pager", "--full"),
        ("systemctl", "list-units", "--type=service", "--no-pager", "--plain", "--full"),
    ),
    "disks": (
        (*_DF, "--print-type"),
        (*_DF, "--inodes"),
        *_cat("/proc/mounts", "/proc/diskstats", "/proc/mdstat"),
    ),
    "pressure": _cat(
        *(f"/proc/pressure/{what}" for what in ("cpu", "memory", "io")),
        *("/proc/loadavg", "/proc/meminfo", "/proc/sys/fs/file-nr", "/proc/vmstat"),
    ),
    # Program names only, no arguments: those contain secrets that no pattern can recognise.
    "processes": (
        ("ps", "-eo", "stat,pid,ppid,user,etimes,rss,pcpu,wchan:24,comm", "--sort=-rss"),
    ),
    "system": (
        ("uname", "-a"),
        ("uptime",),
        ("timedatectl", "status", "--no-pager"),
        *_cat("/etc/os-release", "/proc/cmdline", "/proc/modules"),
    ),
}
