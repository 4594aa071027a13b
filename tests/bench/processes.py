"""CPU time and memory of a process and its children, read from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """cpu in seconds since the processes began, rss in bytes."""

    cpu: float
    rss: int


def _family(pid: int) -> list[int]:
    """Each thread has children of its own."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    try:
        children = [child for thread in threads for child in thread.read_text().split()]
    except OSError:
        return [pid] if Path(f"/proc/{pid}").exists() else []
    return [pid, *(one for child in children for one in _family(int(child)))]


def usage(pid: int) -> Usage:
    """Of `pid` and every process below it; a process that has ended counts nothing."""
    cpu, rss = 0.0, 0
    for one in _family(pid):
        try:
            stat = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
            rss += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * _PAGE
        except FileNotFoundError:
            continue
        cpu += (int(stat[11]) + int(stat[12])) / _TICKS
    return Usage(cpu, rss)


def most_memory(pid: int) -> int:
    """Bytes: the most that each of `pid` and the processes below it ever had resident, summed."""
    found = 0
    for one in _family(pid):
        try:
            status = Path(f"/proc/{one}/status").read_text()
        except FileNotFoundError:
            continue
        found += sum(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line)
    return found * 1024
