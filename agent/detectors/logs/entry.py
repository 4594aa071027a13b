"""An entry of the journal, and its writer as journald attests it.

Fields that begin with an underscore are set by journald; others are claims of the writer. Source:
systemd.journal-fields(7).
"""

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from agent.detectors.logs.line import ANYBODY, KERNEL, LONGEST, MANAGER, Line

FIELDS = (
    "MESSAGE",
    "SYSLOG_IDENTIFIER",
    "SYSLOG_FACILITY",
    "_TRANSPORT",
    "_SYSTEMD_UNIT",
    "_SYSTEMD_USER_UNIT",
    "_SYSTEMD_SLICE",
    "_SYSTEMD_CGROUP",
    "_PID",
    "_UID",
    "_EXE",
    "_BOOT_ID",
)
_CONTAINER = re.compile(r"kubepods|/machine\.slice/|/user\.slice/|[0-9a-f]{64}")

Value = str | list[Any] | None
"""A text; a list of bytes if it is not UTF-8, or of values if the field occurs repeatedly; None
if it is too long.
"""


class SystemJournalEntry(msgspec.Struct, frozen=True, rename="upper", gc=False):
    message: Value = ""
    syslog_identifier: Value = ""
    syslog_facility: Value = ""
    transport: Value = msgspec.field(default="", name="_TRANSPORT")
    unit: Value = msgspec.field(default="", name="_SYSTEMD_UNIT")
    user_unit: Value = msgspec.field(default="", name="_SYSTEMD_USER_UNIT")
    slice: Value = msgspec.field(default="", name="_SYSTEMD_SLICE")
    cgroup: Value = msgspec.field(default="", name="_SYSTEMD_CGROUP")
    pid: Value = msgspec.field(default="", name="_PID")
    uid: Value = msgspec.field(default="", name="_UID")
    exe: Value = msgspec.field(default="", name="_EXE")
    boot_id: Value = msgspec.field(default="", name="_BOOT_ID")
    cursor: str = msgspec.field(default="", name="__CURSOR")
    realtime: str = msgspec.field(default="", name="__REALTIME_TIMESTAMP")


decode = msgspec.json.Decoder(SystemJournalEntry).decode


def line_of(entry: SystemJournalEntry, boot_id: str = "") -> Line | None:
    """Return the line; None for an entry without message or time. boot_id: of this boot; ""
    unknown.
    """
    text = message_of(entry.message).strip()[:LONGEST]
    if not text or not entry.realtime.isdecimal() or len(entry.realtime) > 17:
        return None
    at = datetime.fromtimestamp(int(entry.realtime) / 1e6, UTC)
    uid = _word(entry.uid)
    return Line(
        text,
        at,
        origin_of(entry),
        identifier=_word(entry.syslog_identifier),
        uid=int(uid) if uid.isdecimal() and len(uid) < 12 else None,
        exe=_word(entry.exe),
        earlier=bool(boot_id) and _word(entry.boot_id) != boot_id.replace("-", ""),
    )


def origin_of(entry: SystemJournalEntry) -> str:
    """Return the writer as in Line.origin; ANYBODY for a writer that is no system service."""
    if entry.transport == "kernel":
        # Lines that user space writes to /dev/kmsg come here too, with another facility.
        return KERNEL if entry.syslog_facility == "0" else ANYBODY
    if entry.pid == "1":
        return MANAGER
    unit, cgroup = _word(entry.unit), _word(entry.cgroup)
    if not unit.endswith(".service") or unit.startswith("user@") or _word(entry.user_unit):
        return ANYBODY
    within = f"{_word(entry.slice)} {cgroup}"
    if within.startswith("user") or _CONTAINER.search(within):
        return ANYBODY
    return unit


def message_of(value: Value) -> str:
    if isinstance(value, list):
        if all(isinstance(item, int) and 0 <= item < 256 for item in value):
            return bytes(value).decode(errors="replace")
        return "\n".join(message_of(item) for item in value if isinstance(item, str | list))
    return value or ""


def _word(value: Value) -> str:
    """Return a field that occurs once; "" for anything else."""
    return value if isinstance(value, str) else ""
