"""What this agent has begun and how it ended, on disk: why a request runs at most once.

One small file per request. It is written whole beside its place, flushed, renamed and the folder
flushed, so a power cut leaves the old entry or the new one. The intent stands before the act: an
intent without an outcome was interrupted, and is never begun again. Each file carries the checksum
of what it says: one that was garbled, in a single bit even, is not believed, but its name still
forbids.

Bounded: entries whose request expired long ago are dropped, as an expired request is refused
anyway; when that makes no room, nothing new is begun.
"""

import zlib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from agent.disk import Disk, RealDisk, replace
from agent.outcome import StepOutcome
from agent.patience import Waits
from agent.probes import CannotAnswer
from agent.request import Key

MAX_ENTRIES = 512
DISK_SECONDS = 20.0
KEEP = timedelta(hours=24)
"""After the expiry: a clock may be set back by less than this."""


T = TypeVar("T")


class JournalError(Exception):
    """The journal cannot be written or is full; the text names the file and the remedy."""


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `outcome` None: begun, and never seen to end.

    boot_id   of the host when it began
    before    what the action saw before it acted
    limit     seconds that the act was given
    ended_on  boot ID of the host when the outcome was seen
    """

    job: str
    action: str
    boot_id: str
    started_at: datetime
    expires_at: datetime
    limit: float
    before: dict[str, str]
    finished_at: datetime | None = None
    outcome: StepOutcome | None = None
    ended_on: str = ""


class Journal(Protocol):
    """Both writes return when the entry would survive a power cut. Raise JournalError."""

    def read(self, key: Key) -> JournalEntry | None:
        """None: never begun. Raises JournalError for an entry that cannot be read."""
        ...

    def begin(self, key: Key, entry: JournalEntry, now: datetime) -> None: ...

    def finish(self, key: Key, entry: JournalEntry) -> None: ...

    def interrupted(self) -> Iterator[tuple[Key, JournalEntry]]:
        """Entries that were begun and have no outcome."""
        ...


class MemoryJournal:
    """For simulated agents, which lose nothing that a real host would keep."""

    def __init__(self, limit: int = MAX_ENTRIES) -> None:
        self._limit = limit
        self._entries: dict[Key, JournalEntry] = {}

    def read(self, key: Key) -> JournalEntry | None:
        return self._entries.get(key)

    def begin(self, key: Key, entry: JournalEntry, now: datetime) -> None:
        if len(self._entries) >= self._limit:
            old = [k for k, e in self._entries.items() if now > e.expires_at + KEEP]
            for known in old:
                del self._entries[known]
        if len(self._entries) >= self._limit:
            raise JournalError(_full(self._limit))
        self._entries[key] = entry

    def finish(self, key: Key, entry: JournalEntry) -> None:
        self._entries[key] = entry

    def interrupted(self) -> Iterator[tuple[Key, JournalEntry]]:
        yield from [(k, e) for k, e in self._entries.items() if e.outcome is None]


class FileJournal:
    """One file `JOB-UID.REQUEST-ID` per request in `folder`, which is made if it is missing.

    Raises JournalError when the folder cannot be used.
    """

    def __init__(self, folder: Path, limit: int = MAX_ENTRIES, disk: Disk | None = None) -> None:
        self._folder = folder
        self._limit = limit
        self._disk = disk or RealDisk()
        try:
            self._disk.make_folder(folder)
            for name in self._disk.names(folder):
                if name.startswith(".") and name.endswith(".new"):
                    self._disk.remove(folder / name)
        except OSError as error:
            raise JournalError(
                f"journal folder {folder}: {error.strerror}; set state_dir to a folder on disk "
                "that the agent may write"
            ) from error

    def read(self, key: Key) -> JournalEntry | None:
        path = self._folder / str(key)
        try:
            return _read(self._disk.read(path))
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, RecursionError, _Garbled) as error:
            raise JournalError(f"journal entry {path} cannot be read: {error}") from error

    def begin(self, key: Key, entry: JournalEntry, now: datetime) -> None:
        names = self._names()
        if len(names) >= self._limit:
            names = self._drop_old(names, now)
        if len(names) >= self._limit:
            raise JournalError(_full(self._limit))
        self._write(key, entry)

    def finish(self, key: Key, entry: JournalEntry) -> None:
        self._write(key, entry)

    def interrupted(self) -> Iterator[tuple[Key, JournalEntry]]:
        for name in self._names():
            key = Key(*name.split(".", 1))
            try:
                entry = self.read(key)
            except JournalError:
                continue  # no outcome can come of it; it forbids by its name
            if entry is not None and entry.outcome is None:
                yield key, entry

    def _names(self) -> list[str]:
        try:
            return [n for n in self._disk.names(self._folder) if "." in n and not n.startswith(".")]
        except OSError as error:
            raise JournalError(f"journal folder {self._folder}: {error.strerror}") from error

    def _drop_old(self, names: list[str], now: datetime) -> list[str]:
        remaining = []
        for name in names:
            try:
                entry = self.read(Key(*name.split(".", 1)))
            except JournalError:
                entry = None
            old = entry is not None and now > entry.expires_at + KEEP
            if not (old and self._removed(name)):
                remaining.append(name)
        return remaining

    def _removed(self, name: str) -> bool:
        """What a disk that is full or read-only does not let go takes its room on."""
        try:
            self._disk.remove(self._folder / name)
        except OSError:
            return False
        return True

    def _write(self, key: Key, entry: JournalEntry) -> None:
        path = self._folder / str(key)
        try:
            replace(self._disk, path, _written(entry))
        except OSError as error:
            raise JournalError(f"journal entry {path}: {error.strerror}") from error


class PatientJournal:
    """A journal for the event loop: its disk may hang, and the agent must not hang with it.

    patience  with its disk, of one piece of work: nothing overtakes what hangs

    What outlasts `seconds` raises JournalError; it may be on disk all the same, or get there later.
    """

    def __init__(self, journal: Journal, patience: Waits, seconds: float = DISK_SECONDS) -> None:
        self._journal, self._patience, self._seconds = journal, patience, seconds

    async def read(self, key: Key) -> JournalEntry | None:
        return await self._do(lambda: self._journal.read(key))

    async def begin(self, key: Key, entry: JournalEntry, now: datetime) -> None:
        await self._do(lambda: self._journal.begin(key, entry, now))

    async def finish(self, key: Key, entry: JournalEntry) -> None:
        await self._do(lambda: self._journal.finish(key, entry))

    async def interrupted(self) -> list[tuple[Key, JournalEntry]]:
        return await self._do(lambda: list(self._journal.interrupted()))

    async def _do(self, work: Callable[[], T]) -> T:
        try:
            return await self._patience.wait_for(work, self._seconds, "journal of requests")
        except CannotAnswer as error:
            raise JournalError(str(error)) from error


class _Garbled(Exception):
    pass


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(JournalEntry).decode


def _written(entry: JournalEntry) -> bytes:
    """The checksum in eight digits, a space, the entry."""
    text: bytes = _encode(entry)
    return b"%08x " % zlib.crc32(text) + text


def _read(content: bytes) -> JournalEntry:
    """Raises _Garbled, msgspec.DecodeError, RecursionError. The first agents wrote no checksum."""
    if content.startswith(b"{"):
        return _decode(content)
    sum_, _, text = content.partition(b" ")
    if sum_ != b"%08x" % zlib.crc32(text):
        raise _Garbled("its checksum is wrong")
    return _decode(text)


def _full(limit: int) -> str:
    return f"the journal has {limit} requests that have not expired; nothing new is begun"
