"""Journal of requests and their outcomes on disk, so that a request runs at most once.

There is one small file for each request. It is replaced atomically, so a power cut leaves the old
or the new entry. The intent is written before the act. An intent without an outcome was interrupted
and is never begun again. Each file has a checksum. The content of a corrupt file is ignored, but
its name still prevents the request from running.

The journal is bounded. Entries of requests that expired long ago are dropped, because an expired
request is refused anyway. If that makes no room, no new request begins.
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
"""Time after the expiry for which entries are kept; the clock may be set back by less."""


T = TypeVar("T")


class JournalError(Exception):
    """The journal cannot be written or is full; the text names the file and what to do."""


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Journal entry of one request. outcome: None: begun, and its end was not observed.

    boot_id: of the host when the request began
    before: what the action read before its act
    limit: seconds that the act was given
    ended_on: boot ID of the host when the outcome was observed
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
    """Journal of requests. Writes are durable on return. All methods raise JournalError."""

    def read(self, key: Key) -> JournalEntry | None:
        """Return the entry; None if the request never began. Raises JournalError if it is
        unreadable.
        """
        ...

    def begin(self, key: Key, entry: JournalEntry, now: datetime) -> None: ...

    def finish(self, key: Key, entry: JournalEntry) -> None: ...

    def interrupted(self) -> Iterator[tuple[Key, JournalEntry]]:
        """Return the entries that have no outcome."""
        ...


class MemoryJournal:
    """Journal in memory, for simulated agents."""

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
    """Journal with one file `JOB-UID.REQUEST-ID` for each request in `folder`, which is created.

    Raises JournalError if the folder cannot be used.
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
                continue  # no outcome can be found; the name prevents a repetition
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
        """Return whether the entry could be removed from a disk that may be full or read-only."""
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
    """Journal for the event loop, with a timeout, because the disk may hang.

    patience: runs disk work, one piece at a time, so that nothing overtakes a hanging write

    Work that exceeds `seconds` raises JournalError. It may be on disk nevertheless, or get there
    later.
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
    """Return the checksum in eight digits, a space and the entry."""
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
