"""Follows a log file over rotation and truncation. inotify reports changes.

After a rotation the writer may continue in the old file for a while. That file is read too, until
it is deleted or the next rotation.
"""

import asyncio
import errno
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import msgspec

from agent.detectors.logs.inotify import APPEARED, CHANGED, Inotify
from agent.detectors.logs.line import Line
from agent.detectors.logs.sources import FIRST_RETRY, LONGEST_RETRY, Hearer, Pace
from agent.detectors.logs.splitter import Splitter
from agent.host.files import OWN_ROOT, HostRoot
from kubenode.runtime.clock import Clock

CHUNK = 64 * 1024
LINE_BYTES = 32 * 1024
MOST_BEHIND = 16 * 1024 * 1024
"""Bytes. Older content is skipped, at the start and if the writer is faster than the reader."""

Translate = Callable[[str, datetime], Sequence[Line]]
"""(text, now) to lines: one for each monitor of this file that recognises the text."""


TAIL_BYTES = 64


class FilePosition(msgspec.Struct, frozen=True):
    """A position. tail: content right before `offset`; if it differs, the file was rewritten."""

    device: int = 0
    inode: int = 0
    offset: int = 0
    tail: bytes = b""


@dataclass(slots=True)
class _Open:
    """An open file. offset: where the next read begins; tail: the content before it."""

    fd: int
    device: int
    inode: int
    offset: int
    tail: bytes
    splitter: Splitter
    watch: int = -1

    def place(self) -> FilePosition:
        """Return where to continue: at the start of the incomplete line."""
        pending = self.splitter.pending
        tail = self.tail[:-pending] if pending else self.tail
        return FilePosition(self.device, self.inode, self.offset - pending, tail)

    def is_file(self, status: os.stat_result) -> bool:
        return (self.device, self.inode) == (status.st_dev, status.st_ino)


class FileSource:
    """Implements Source.

    path: of the host
    root: where the host's root is mounted
    """

    def __init__(self, clock: Clock, path: str, translate: Translate, root: str = OWN_ROOT) -> None:
        self.name, self.path = f"file:{path}", path
        self._files = HostRoot(root)
        self._clock, self._translate = clock, translate
        self._now: _Open | None = None
        self._old: _Open | None = None
        self._begin = FilePosition()

    @property
    def position(self) -> str:
        if self._now is None:
            return ""
        return msgspec.json.encode(self._now.place()).decode()

    async def run(self, hearer: Hearer, position: str) -> None:
        with suppress(msgspec.DecodeError):
            self._begin = (
                msgspec.json.decode(position, type=FilePosition) if position else FilePosition()
            )
        wait = FIRST_RETRY
        while True:
            try:
                await self._follow(hearer)
            except OSError as error:
                hearer.broken(self.name, f"{error.filename or self.path}: {error.strerror}")
            finally:
                self._close()
            await self._clock.sleep(wait)
            wait = min(wait * 2, LONGEST_RETRY)

    async def _follow(self, hearer: Hearer) -> None:
        """Follow the file. Raises OSError."""
        inotify = Inotify()
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        loop.add_reader(inotify.fd, woken.set)
        reported: bool | None = None
        try:
            inotify.watch(str(self._files.path(os.path.dirname(self.path))), APPEARED)
            while True:
                woken.clear()
                inotify.drain()
                there = await self._read_new(hearer, inotify)
                if there is not reported:
                    if there:
                        hearer.caught_up(self.name)
                    else:
                        hearer.broken(self.name, f"{self.path}: no such file")
                reported = there
                await woken.wait()
        finally:
            loop.remove_reader(inotify.fd)
            inotify.close()

    async def _read_new(self, hearer: Hearer, inotify: Inotify) -> bool:
        """Read what is new; return whether the file exists."""
        if self._old is not None:
            await self._drain(hearer, self._old)
            if os.fstat(self._old.fd).st_nlink == 0:
                self._drop_old(inotify)
        try:
            status = self._files.stat(self.path)
        except FileNotFoundError:
            status = None
        if self._now is not None:
            await self._drain(hearer, self._now)
            if status is None or self._now.is_file(status):
                return True
            self._drop_old(inotify)
            self._old, self._now = self._now, None
        if status is None:
            return False
        self._now = self._open(inotify)
        await self._drain(hearer, self._now)
        return True

    def _open(self, inotify: Inotify) -> _Open:
        fd = self._files.open_handle(self.path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "is no ordinary file", self.path)
            # Watch the open file: the path may refer to another file by now.
            watch = inotify.watch(f"/proc/self/fd/{fd}", CHANGED)
        except OSError:
            os.close(fd)
            raise
        place, self._begin = self._begin, FilePosition()
        known = (place.device, place.inode) == (status.st_dev, status.st_ino)
        offset = place.offset if known and place.offset <= status.st_size else 0
        tail = place.tail if offset else b""
        return _Open(fd, status.st_dev, status.st_ino, offset, tail, Splitter(LINE_BYTES), watch)

    def _drop_old(self, inotify: Inotify) -> None:
        if self._old is not None:
            inotify.forget(self._old.watch)
            os.close(self._old.fd)
            self._old = None

    def _close(self) -> None:
        if self._now is not None:
            self._begin = self._now.place()
        for opened in (self._now, self._old):
            if opened is not None:
                os.close(opened.fd)
        self._now = self._old = None

    async def _drain(self, hearer: Hearer, opened: _Open) -> None:
        """Read to the end, at a bounded pace."""
        while True:
            self._skip(hearer, opened)
            with Pace() as pace:
                data = os.pread(opened.fd, CHUNK, opened.offset)
                opened.offset += len(data)
                opened.tail = (opened.tail + data)[-TAIL_BYTES:]
                self._tell(hearer, opened.splitter.feed(data))
            if pace.rest or len(data) == CHUNK:
                await asyncio.sleep(pace.rest)
            if len(data) < CHUNK:
                return

    def _skip(self, hearer: Hearer, opened: _Open) -> None:
        """Restart in a truncated or rewritten file; skip what is too far behind."""
        size = os.fstat(opened.fd).st_size
        before = max(0, opened.offset - len(opened.tail))
        if size < opened.offset or os.pread(opened.fd, len(opened.tail), before) != opened.tail:
            opened.offset, opened.tail = 0, b""
            opened.splitter.forget()
        behind = size - opened.offset
        if behind > MOST_BEHIND:
            skipped = behind - MOST_BEHIND
            opened.offset, opened.tail = opened.offset + skipped, b""
            opened.splitter.forget(amid=True)
            hearer.lost(self.name, f"{skipped} bytes of {self.path} were left out")

    def _tell(self, hearer: Hearer, raw: list[bytes]) -> None:
        now = self._clock.now()
        lines: list[Line] = []
        for raw_line in raw:
            lines += self._translate(raw_line.decode(errors="replace"), now)
        if lines:
            hearer.lines(self.name, lines)
