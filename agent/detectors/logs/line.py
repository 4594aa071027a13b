"""A line of a log and its writer.

A line is judged by its writer, never by its text alone, because anybody can write "kernel:" into a
log. The writer is attested by the kernel or journald: the kernel's own facility in /dev/kmsg, the
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
"""Characters of a line that are read."""

_STAMP = re.compile(
    r"(?:\[ *\d+(?:\.\d+)?\]|\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:.]{8,15} \d{4}\])"
    r"(?: ?\[ *[TC]\d+\])? ?"
)
"""Prefix of a record in dmesg: seconds, or a date (-T); since 5.1 also the task or CPU."""
_LEVEL = re.compile(r"<\d{1,3}>|(?:kern|user|daemon) *:[a-z]{3,6} *: ")
"""Prefix with the priority: syslog(2), or `dmesg -x`."""
_SYSLOG = re.compile(
    r"(?:[A-Z][a-z]{2} [ \d]\d [\d:.]{8,15}|\d{4}-\d\d-\d\d[T ][\d:.,]{8,18}(?:Z|[+-]\d\d:?\d\d)?)"
    r" (?:(?P<host>\S+) )?(?P<who>[\w.@/-]{1,48})(?:\[\d+\])?: "
)
"""Prefix with time, host and writer: formats of rsyslog (RFC 3164, RFC 3339) and journalctl."""
_NAMED = re.compile(r"(?P<who>[\w.@-]{1,48})(?:\[\d+\])?: ?")


@dataclass(frozen=True, slots=True)
class Line:
    """A line. `text` has several lines if the journal entry has.

    origin: KERNEL, MANAGER, a unit (`kubelet.service`), the path of a file, or ANYBODY
    identifier: how the writer names itself (SYSLOG_IDENTIFIER), which proves nothing
    uid, exe: of the writing process, attested by journald; None and "" if unknown
    earlier: the line is of an earlier boot
    """

    text: str
    at: datetime
    origin: str
    identifier: str = ""
    uid: int | None = None
    exe: str = ""
    earlier: bool = False


def without_stamp(text: str) -> str:
    """Return the line without dmesg's `[seconds]` prefix."""
    match = _STAMP.match(text)
    return text[match.end() :] if match else text


def bare(source: str, text: str, host: str = "") -> str:
    """Return the line as its writer wrote it, without prefixes of logs or programs.

    host: of the log; a line of another host stays as it is. "": any host

    Only for lines whose writer is known otherwise: a prefix proves nothing about the writer.
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
    """Return the lines of a record that names its source in one word, as in test cases.

    A `source` other than kernel and systemd is the unit of that name, run by root.
    """
    origin = source if source in (KERNEL, MANAGER) else f"{source}.service"
    uid = None if origin == KERNEL else 0
    return [
        Line(bare(source, row.rstrip(), host)[:LONGEST], at, origin, identifier=source, uid=uid)
        for row in text.splitlines()
        if row.strip()
    ]
