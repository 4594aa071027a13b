"""Follows the journal by journalctl.

It first reads what exists, then what is added. The position is the cursor of the last entry, so a
restart of the agent or of journalctl misses and repeats nothing. While the agent does not read,
journalctl waits, so a flood stays in the journal and not in the agent's memory.
"""

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from datetime import datetime

import msgspec

from agent.detectors.logs.entry import FIELDS, decode, line_of
from agent.detectors.logs.line import Line
from agent.detectors.logs.routes import JOURNAL
from agent.detectors.logs.sources import FIRST_RETRY, LONGEST_RETRY, Hearer, Pace
from agent.detectors.logs.splitter import Splitter
from agent.host import HostError
from agent.host.files import OWN_ROOT
from agent.programs import started
from kubenode.runtime.clock import Clock

PROGRAM = "journalctl"
CHUNK = 64 * 1024
ENTRY_BYTES = 256 * 1024
"""Bytes of an entry. journalctl drops values over 4096 bytes; escaped ones are longer."""

Matches = Sequence[Sequence[str]]
"""Alternatives, each a list of FIELD=value that must all match."""


class JournalctlError(Exception):
    """journalctl cannot be started or has ended; the text has its output."""


class JournalSource:
    """Source of journal entries.

    matches: entries to read; journalctl filters the others
    since: where to start without a position
    where: journal, as an option of journalctl; "" for the host's own
    boot_id: of this boot
    root: where the host's root is mounted; journalctl is the host's
    """

    name = JOURNAL

    def __init__(
        self,
        clock: Clock,
        matches: Matches,
        since: datetime,
        *,
        where: str = "",
        boot_id: str = "",
        program: Sequence[str] = (PROGRAM,),
        root: str = OWN_ROOT,
    ) -> None:
        self._root = root
        self._clock, self._since, self._program = clock, since, list(program)
        self._where = [where] if where else []
        self._matches: list[str] = []
        for group in matches:
            self._matches += (["+"] if self._matches else []) + list(group)
        self._boot_id = boot_id
        self._cursor = ""

    @property
    def position(self) -> str:
        return self._cursor

    async def run(self, hearer: Hearer, position: str) -> None:
        self._cursor = position
        wait = FIRST_RETRY
        while True:
            before = self._cursor
            begun = self._clock.now()
            try:
                await self._read(hearer, follow=False)
                if self._cursor == before == "":
                    self._since = max(self._since, begun)
                hearer.caught_up(self.name)
                wait = FIRST_RETRY
                await self._read(hearer, follow=True)
                reason = "ended"
            except JournalctlError as error:
                reason = str(error)
                if "cursor" in reason.lower() and self._cursor:
                    # The cursor is of a deleted journal: what exists now is all there is.
                    self._cursor = ""
                    hearer.lost(
                        self.name, f"the journal does not know our place any more: {reason}"
                    )
            hearer.broken(self.name, f"journalctl: {reason}")
            await self._clock.sleep(wait)
            wait = min(wait * 2, LONGEST_RETRY)

    async def _read(self, hearer: Hearer, *, follow: bool) -> None:
        """Read entries. Raises JournalctlError if journalctl fails."""
        try:
            await self._read_of(self._argv(follow), hearer)
        except HostError as error:
            raise JournalctlError(str(error)) from error

    async def _read_of(self, argv: Sequence[str], hearer: Hearer) -> None:
        """Read entries. Raises JournalctlError; HostError if journalctl cannot be started."""
        splitter = Splitter(ENTRY_BYTES)
        async with started(argv, PIPE, PIPE, CHUNK, root=self._root) as child:
            assert child.stdout is not None and child.stderr is not None
            async with asyncio.TaskGroup() as tasks:
                complaint = tasks.create_task(_read_complaint(child.stderr))
                while data := await child.stdout.read(CHUNK):
                    with Pace() as pace:
                        self._take(hearer, splitter, data)
                    await asyncio.sleep(pace.rest)
            if code := await child.wait():
                raise JournalctlError(complaint.result() or f"ended with {code}")
        if splitter.cut:
            hearer.lost(self.name, f"{splitter.cut} entries were too long")

    def _take(self, hearer: Hearer, splitter: Splitter, data: bytes) -> None:
        lines: list[Line] = []
        unread = 0
        for raw in splitter.feed(data):
            try:
                entry = decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError):
                unread += 1
                continue
            self._cursor = entry.cursor or self._cursor
            line = line_of(entry, self._boot_id)
            if line is not None:
                lines.append(line)
            elif entry.message is None or not entry.realtime.isdecimal():
                unread += 1
        if lines:
            hearer.lines(self.name, lines)
        if unread:
            hearer.lost(self.name, f"{unread} entries could not be read")

    def _argv(self, follow: bool) -> list[str]:
        argv = [*self._program, "--quiet", "--no-pager", "--output=json"]
        argv += [f"--output-fields={','.join(FIELDS)}", *self._where]
        argv += ["--follow", "--no-tail"] if follow else []
        if self._cursor:
            argv.append(f"--after-cursor={self._cursor}")
        else:
            argv.append(f"--since=@{self._since.timestamp():.6f}")
        return [*argv, *self._matches]


async def _read_complaint(stream: asyncio.StreamReader) -> str:
    """Read all error output, so that journalctl never blocks; return its end."""
    tail = b""
    while data := await stream.read(CHUNK):
        tail = (tail + data)[-500:]
    return tail.decode(errors="replace").strip()
