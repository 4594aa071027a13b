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

_STAMP = re.compile(
    r"(?:\[ *\d+(?:\.\d+)?\]|\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:.]{8,15} \d{4}\])"
    r"(?: ?\[ *[TC]\d+\])? ?"
)
"""What dmesg puts before a record: seconds, or a date (-T); since 5.1 the task or CPU as well."""
_LEVEL = re.compile(r"<\d{1,3}>|(?:kern|user|daemon) *:[a-z]{3,6} *: ")
"""The priority in front: syslog(2), or `dmesg -x`."""
_SYSLOG = re.compile(
    r"(?:[A-Z][a-z]{2} [ \d]\d [\d:.]{8,15}|\d{4}-\d\d-\d\d[T ][\d:.,]{8,18}(?:Z|[+-]\d\d:?\d\d)?)"
    r" (?:(?P<host>\S+) )?(?P<who>[\w.@/-]{1,48})(?:\[\d+\])?: "
)
"""Time, host and writer in front: rsyslog's forms (RFC 3164, RFC 3339) and journalctl's."""
_NAMED = re.compile(r"(?P<who>[\w.@-]{1,48})(?:\[\d+\])?: ?")


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
    match = _STAMP.match(text)
    return text[match.end() :] if match else text


def bare(source: str, text: str, host: str = "") -> str:
    """The line as its writer wrote it, without what a log or a program put before it.

    host  where the log is, "" if that does not matter: a line of another host stays as it is

    Only for lines whose writer is known from elsewhere: what stands in front of a line is no proof
    of who wrote it.
    """
    match = _SYSLOG.match(text)
    if match is not None and _is(source, match["who"]):
        if host and match["host"] and match["host"].split(".")[0] != host.split(".")[0]:
            return text
        text = text[match.end() :]
    for _ in range(3):
        before = text
        if match := _LEVEL.match(text):
            text = text[match.end() :]
        text = without_stamp(text)
        match = _NAMED.match(text)
        if match is not None and _is(source, match["who"]):
            text = text[match.end() :]
        if text == before:
            break
    return text.lstrip()


def _is(source: str, who: str) -> bool:
    return who == source or (source == KERNEL and who == "klogd")


def recorded(source: str, text: str, at: datetime, host: str = "") -> list[Line]:
    """Lines of a record that names its source in one word, as cases of tests do.

    A `source` other than kernel and systemd is the unit of that name, run by root.
    """
    origin = source if source in (KERNEL, MANAGER) else f"{source}.service"
    uid = None if origin == KERNEL else 0
    return [
        Line(bare(source, row.rstrip(), host)[:LONGEST], at, origin, identifier=source, uid=uid)
        for row in text.splitlines()
        if row.strip()
    ]
