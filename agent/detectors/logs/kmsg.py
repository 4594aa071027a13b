"""Reads /dev/kmsg, the kernel's own log.

A record is `priority,sequence,microseconds since boot,flags[,...];text`, then lines with fields
that begin with a blank. Source: Documentation/ABI/testing/dev-kmsg of Linux. A record that user
space writes has a facility other than the kernel's (0), whatever its text says.
"""

import asyncio
import errno
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from agent.detectors.logs.line import ANYBODY, KERNEL, LONGEST, Line
from agent.detectors.logs.sources import FIRST_RETRY, LONGEST_RETRY, Hearer, Pace
from agent.host.files import OWN_FILES, HostRoot
from kubenode.runtime.clock import Clock

DEVICE = "/dev/kmsg"
RECORD_BYTES = 8192
"""The kernel's limit of a record (CONSOLE_EXT_LOG_MAX)."""
AT_ONCE = 256
"""Records that are read before other tasks run."""

_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


@dataclass(frozen=True, slots=True)
class KmsgRecord:
    """A record. since_boot: seconds."""

    facility: int
    sequence: int
    since_boot: float
    text: str


def parse(record: bytes) -> KmsgRecord | None:
    """Parse a record; None if it is invalid."""
    head, semicolon, text = record.partition(b";")
    fields = head.split(b",")
    if not semicolon or len(fields) < 3 or len(head) > 200:
        return None
    try:
        priority, sequence, microseconds = (int(field) for field in fields[:3])
    except ValueError:
        return None
    if not (0 <= priority < 1 << 16 and 0 <= sequence < 1 << 64 and 0 <= microseconds < 1 << 63):
        return None
    first = text.split(b"\n", 1)[0][: 4 * LONGEST]
    plain = _ESCAPE.sub(lambda match: bytes([int(match.group(1), 16)]), first)
    message = plain.decode(errors="replace").strip()
    return KmsgRecord(priority >> 3, sequence, microseconds / 1e6, message[:LONGEST])


def records(data: bytes) -> list[bytes]:
    """Split the data of one read. A device returns one record, a pipe as many as it has."""
    lines: list[bytes] = []
    for line in data.split(b"\n"):
        if line and not line.startswith(b" "):
            lines.append(line)
    return lines


class KmsgSource:
    """Source of kernel lines.

    device: /dev/kmsg, or a pipe in the same format
    uptime: returns the seconds of the clock with which the kernel stamps records
    files: where the device is
    """

    name = "kmsg"

    def __init__(
        self,
        clock: Clock,
        device: str = DEVICE,
        uptime: Callable[[], float] = time.monotonic,
        files: HostRoot = OWN_FILES,
    ) -> None:
        self._clock, self._device, self._uptime, self._files = clock, device, uptime, files
        self._last = -1
        self._caught_up = False

    @property
    def position(self) -> str:
        return str(self._last) if self._last >= 0 else ""

    async def run(self, hearer: Hearer, position: str) -> None:
        self._last = int(position) if position.isdecimal() else -1
        wait = FIRST_RETRY
        while True:
            self._caught_up = False
            try:
                fd = self._files.open_handle(self._device, os.O_RDONLY | os.O_NONBLOCK)
            except OSError as error:
                hearer.broken(self.name, f"{self._device}: {error.strerror}")
            else:
                try:
                    await _Following(self, fd, hearer).ended()
                except OSError as error:
                    hearer.broken(self.name, f"{self._device}: {error.strerror}")
                finally:
                    os.close(fd)
                if self._caught_up:
                    wait = FIRST_RETRY
            await self._clock.sleep(wait)
            wait = min(wait * 2, LONGEST_RETRY)

    def took(self, data: bytes, hearer: Hearer, booted: datetime) -> list[Line]:
        """Return the lines of one read, without those that were reported before."""
        lines = []
        unread = 0
        for raw in records(data):
            record = parse(raw)
            if record is None:
                unread += 1
                continue
            if record.sequence <= self._last:
                continue
            missing = record.sequence - self._last - 1
            if missing and self._last >= 0:
                hearer.lost(self.name, f"{missing} kernel lines were overwritten unread")
            self._last = record.sequence
            if record.text:
                at = booted + timedelta(seconds=min(record.since_boot, self._uptime()))
                origin = KERNEL if record.facility == 0 else ANYBODY
                lines.append(Line(record.text, at, origin))
        if unread:
            hearer.lost(self.name, f"{unread} kernel records could not be read")
        return lines

    def booted(self) -> datetime:
        return self._clock.now() - timedelta(seconds=self._uptime())

    def end_reached(self, hearer: Hearer) -> None:
        if not self._caught_up:
            self._caught_up = True
            hearer.caught_up(self.name)


class _Following:
    """Reads an open device whenever it is readable."""

    def __init__(self, source: KmsgSource, fd: int, hearer: Hearer) -> None:
        self._source, self._fd, self._hearer = source, fd, hearer
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[None] = self._loop.create_future()
        self._resting: asyncio.TimerHandle | None = None
        self._rest = b""

    async def ended(self) -> None:
        """Read until the device fails. Raises OSError."""
        self._loop.add_reader(self._fd, self._ready)
        try:
            self._ready()
            await self._end
        finally:
            self._loop.remove_reader(self._fd)
            if self._resting is not None:
                self._resting.cancel()

    def _ready(self) -> None:
        try:
            with Pace() as pace:
                more = self._read()
        except OSError as error:
            if not self._end.done():
                self._end.set_exception(error)
            return
        if more or pace.rest:
            self._loop.remove_reader(self._fd)
            self._resting = self._loop.call_later(pace.rest, self._again)

    def _again(self) -> None:
        self._loop.add_reader(self._fd, self._ready)

    def _read(self) -> bool:
        """Read a batch; return whether more may follow. Raises OSError if the device is gone."""
        booted = self._source.booted()
        lines: list[Line] = []
        try:
            for _ in range(AT_ONCE):
                data = self._read_batch()
                if data is None:
                    self._tell(lines)
                    self._source.end_reached(self._hearer)
                    return False
                lines += self._source.took(data, self._hearer, booted)
            return True
        finally:
            self._tell(lines)

    def _read_batch(self) -> bytes | None:
        """Read once; None if there is nothing to read."""
        while True:
            try:
                data = os.read(self._fd, RECORD_BYTES)
            except BlockingIOError:
                return None
            except OSError as error:
                # EPIPE: the next record was overwritten. EINVAL: the record exceeds the buffer.
                if error.errno in (errno.EPIPE, errno.EINVAL):
                    continue
                raise
            if not data:
                raise OSError(errno.EPIPE, "ended")
            whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
            self._rest = self._rest[:RECORD_BYTES]
            return whole + newline

    def _tell(self, lines: list[Line]) -> None:
        if lines:
            batch = lines[:]
            lines.clear()
            with suppress(asyncio.InvalidStateError):
                self._hearer.lines(self._source.name, batch)
