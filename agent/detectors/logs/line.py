"""One line of a log and who wrote it.

A line counts by its writer, never by its text alone: anybody can write "kernel:" into a log. The
writer is what the kernel or journald attest: the kernel's own facility in /dev/kmsg, the
transport `kernel` of the journal, or the unit to whose cgroup the writing process belongs.
"""

import re
from dataclasses import dataclass
from datetime import datetime

KERNEL = "kernel"
MANAGER = "systemd"
"""PID 1 of the host."""
ANYBODY = ""
LONGEST = 8192
"""Characters of a line that are looked at."""

_STAMP = re.compile(r"\[ *\d+(?:\.\d+)?\] ?")


@dataclass(frozen=True, slots=True)
class Line:
    """`text` may hold several lines where a journal entry does.

    origin      KERNEL, MANAGER, a unit (`kubelet.service`), the path of a file, or ANYBODY
    identifier  what the writer calls itself (SYSLOG_IDENTIFIER): a claim, no proof
    uid, exe    of the writing process as journald attests them; None and "" where unknown
    earlier     of a boot before this one
    """

    text: str
    at: datetime
    origin: str
    identifier: str = ""
    uid: int | None = None
    exe: str = ""
    earlier: bool = False


def without_stamp(text: str) -> str:
    """The line without the `[seconds]` that dmesg puts before it."""
    found = _STAMP.match(text)
    return text[found.end() :] if found else text


def recorded(source: str, text: str, at: datetime) -> list[Line]:
    """Lines of a record that names its source in one word, as cases of tests do.

    A `source` other than kernel and systemd is the unit of that name, run by root.
    """
    origin = source if source in (KERNEL, MANAGER) else f"{source}.service"
    uid = None if origin == KERNEL else 0
    return [
        Line(without_stamp(one)[:LONGEST], at, origin, identifier=source, uid=uid)
        for one in text.splitlines()
        if one.strip()
    ]
