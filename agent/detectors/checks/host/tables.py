"""Kernel tables that fill up: open files, tasks, tracked connections, inotify.

Limits of 90 %: Huawei CCE documentation, node-problem-detector (facts).
"""

import ctypes
import errno
import os
from collections.abc import Iterator

from agent.detectors.checks import Finding, Findings
from agent.detectors.checks.host import number
from agent.detectors.checks.steady import is_exceeded
from agent.host.files import HostRoot

FILES, TASKS, CONNECTIONS, INOTIFY = (
    "FDProblem",
    "PIDProblem",
    "ConntrackFullProblem",
    "InotifyProblem",
)
CONDITIONS = (FILES, TASKS, CONNECTIONS, INOTIFY)
DAEMONS = ("kubelet", "containerd", "crio", "dockerd")
MARGIN = 5.0
"""Percent points below a limit at which the fault is over."""
_FULL = {errno.EMFILE: "instances", errno.ENOSPC: "watches", errno.ENFILE: "open files"}


class Tables:
    """Checks the tables. Remembers which limits were exceeded."""

    def __init__(
        self, files: float, tasks: float, connections: float, root: str = "/", folder: str = "/"
    ) -> None:
        self._limits = {FILES: files, TASKS: tasks, CONNECTIONS: connections}
        self._root, self._folder = root, folder
        self._was: dict[str, bool | None] = {}

    def inspect(self) -> Findings:
        """Check the tables. Raises OSError."""
        findings = {
            FILES: self._judge(FILES, "NoFDProblem", "FDNearlyUsedUp", open_files(self._root)),
            TASKS: self._judge(TASKS, "NoPIDProblem", "PIDNearlyUsedUp", tasks(self._root)),
            CONNECTIONS: self._judge(
                *(CONNECTIONS, "ConntrackNotFull", "ConntrackNearlyFull"),
                connections(self._root),
            ),
            INOTIFY: inotify(self._folder),
        }
        self._was = {kind: finding.faulty for kind, finding in findings.items()}
        return findings

    def _judge(
        self, kind: str, good: str, bad: str, uses: Iterator[tuple[str, int, int]]
    ) -> Finding:
        limit, worst, message = self._limits[kind], -1.0, ""
        for what, used, most in uses:
            share = 100.0 * used / most
            if share > worst:
                worst, message = share, f"{what}: {used} of {most} in use"
        if is_exceeded(worst, limit, self._was.get(kind), MARGIN):
            return Finding(True, bad, f"{message}; the limit is {limit:g} %")
        return Finding(False, good, f"nothing is used to {limit:g} % or more")


def open_files(root: str) -> Iterator[tuple[str, int, int]]:
    """Yield description, number and maximum of open files, for the host and for its node
    daemons.
    """
    files = HostRoot(root)
    fields = files.read_text("proc/sys/fs/file-nr").split()
    used, most = int(fields[0]) - int(fields[1]), int(fields[2])
    if most:
        yield "open files of the host", used, most
    for entry in files.list_names("proc"):
        if entry.isdecimal() and (name := _text(root, f"proc/{entry}/comm").strip()) in DAEMONS:
            limit = _soft_limit(_text(root, f"proc/{entry}/limits"))
            try:
                count = len(files.list_names(f"proc/{entry}/fd"))
            except OSError:
                continue  # the process ended meanwhile
            if limit:
                yield f"open files of {name}, process {entry}", count, limit


def tasks(root: str) -> Iterator[tuple[str, int, int]]:
    """Yield description, number and maximum of tasks. /proc/loadavg counts them without a walk."""
    fields = HostRoot(root).read_text("proc/loadavg").split()
    used = int(fields[3].partition("/")[2])
    for path in ("kernel/pid_max", "kernel/threads-max"):
        if most := number(root, f"proc/sys/{path}"):
            yield f"tasks against {path}", used, most


def connections(root: str) -> Iterator[tuple[str, int, int]]:
    """Yield description, number and maximum of connections; nothing if the kernel tracks none."""
    used = number(root, "proc/sys/net/netfilter/nf_conntrack_count")
    most = number(root, "proc/sys/net/netfilter/nf_conntrack_max")
    if used is not None and most:
        yield "tracked connections", used, most


def inotify(folder: str) -> Finding:
    """Try to create one inotify instance and watch: the kernel does not tell their number.

    They are counted by user. Most containers run as root, like the agent.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    file = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    failed = file < 0 or libc.inotify_add_watch(file, os.fsencode(folder), 0x400) < 0
    why = ctypes.get_errno() if failed else 0
    if file >= 0:
        os.close(file)
    if not failed:
        return Finding(False, "InotifyAvailable", "inotify instances and watches can be had")
    if what := _FULL.get(why):
        return Finding(True, "InotifyUsedUp", f"no more inotify {what}: {os.strerror(why)}")
    raise OSError(why, f"inotify watch on {folder}: {os.strerror(why)}")


def _soft_limit(limits: str) -> int:
    for line in limits.splitlines():
        if line.startswith("Max open files"):
            word = line.split()[3]
            return int(word) if word.isdecimal() else 0
    return 0


def _text(root: str, path: str) -> str:
    try:
        return HostRoot(root).read_text(path)
    except OSError:
        return ""
