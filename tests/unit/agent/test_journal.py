"""The journal on disk: whole entries or none, bounded, and what it forbids."""

import asyncio
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from support.agent_world import an_entry
from support.clock import T0

from agent.disk import RealDisk
from agent.journal import (
    KEEP,
    FileJournal,
    Journal,
    JournalError,
    MemoryJournal,
    PatientJournal,
)
from agent.outcome import done
from agent.patience import Patience
from agent.request import Key

KEY = Key("uid-1", "r0s0a1")


@pytest.fixture(params=["file", "memory"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    return MemoryJournal(3) if request.param == "memory" else FileJournal(tmp_path / "j", 3)


def test_what_is_begun_is_interrupted_until_it_is_finished(journal: Journal) -> None:
    assert journal.read(KEY) is None
    journal.begin(KEY, an_entry(), T0)
    assert list(journal.interrupted()) == [(KEY, an_entry())]
    ended = an_entry(finished_at=T0, outcome=done("well"))
    journal.finish(KEY, ended)
    assert list(journal.interrupted()) == []
    assert journal.read(KEY) == ended


def test_full_of_live_requests_begins_nothing(journal: Journal) -> None:
    for number in range(3):
        journal.begin(Key("uid", f"r{number}"), an_entry(), T0)
    with pytest.raises(JournalError, match="has 3 requests that have not expired"):
        journal.begin(KEY, an_entry(), T0)
    assert journal.read(KEY) is None


def test_long_expired_requests_make_room(journal: Journal) -> None:
    for number in range(3):
        journal.begin(Key("uid", f"r{number}"), an_entry(), T0)
    later = T0 + KEEP + timedelta(hours=1)
    journal.begin(KEY, an_entry(expires_at=later), later)
    assert journal.read(Key("uid", "r0")) is None
    assert journal.read(KEY) is not None


class StuckDisk(RealDisk):
    """A read-only one: it lets nothing go."""

    def remove(self, path: Path) -> None:
        raise OSError(30, "Read-only file system")


def test_a_disk_that_lets_no_old_entry_go_is_told_as_a_full_journal(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "j", 3, StuckDisk())
    for number in range(3):
        journal.begin(Key("uid", f"r{number}"), an_entry(), T0)
    later = T0 + KEEP + timedelta(hours=1)
    with pytest.raises(JournalError, match="has 3 requests"):
        journal.begin(KEY, an_entry(expires_at=later), later)


def test_entries_outlive_the_process_and_an_unfinished_file_does_not(tmp_path: Path) -> None:
    FileJournal(tmp_path).begin(KEY, an_entry(), T0)
    (tmp_path / f".{KEY}.new").write_bytes(b'{"job": "j", "act')
    again = FileJournal(tmp_path)
    assert again.read(KEY) == an_entry()
    assert [path.name for path in tmp_path.iterdir()] == [str(KEY)]


def test_nobody_else_reads_the_journal(tmp_path: Path) -> None:
    FileJournal(tmp_path / "state" / "requests")
    assert (tmp_path / "state" / "requests").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", [b"\0\0\0", b'{"state":' + b"[" * 5000])
def test_an_unreadable_entry_is_an_error_and_not_interrupted(
    tmp_path: Path, content: bytes
) -> None:
    journal = FileJournal(tmp_path)
    (tmp_path / str(KEY)).write_bytes(content)
    with pytest.raises(JournalError, match="cannot be read"):
        journal.read(KEY)
    assert list(journal.interrupted()) == []


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="set state_dir to a folder"):
        FileJournal(tmp_path / "file" / "requests")


class HeldDisk(RealDisk):
    """Writes wait, as on a disk that hangs, until they are let go."""

    def __init__(self) -> None:
        self.free = threading.Event()

    def write(self, path: Path, content: bytes) -> None:
        self.free.wait(30)
        super().write(path, content)


async def test_a_disk_that_hangs_is_an_error_and_not_a_wait(tmp_path: Path) -> None:
    disk = HeldDisk()
    journal = PatientJournal(FileJournal(tmp_path, disk=disk), Patience(most=1), seconds=0.01)
    with pytest.raises(JournalError, match="no answer within"):
        await journal.begin(KEY, an_entry(), T0)
    with pytest.raises(JournalError, match="still hang"):  # no second thread behind the first
        await journal.finish(KEY, an_entry(outcome=done("well")))
    disk.free.set()
    async with asyncio.timeout(30):
        while not (tmp_path / str(KEY)).exists():  # noqa: ASYNC110  written by another thread
            await asyncio.sleep(0)


async def test_a_patient_journal_says_what_the_journal_says(journal: Journal) -> None:
    patient = PatientJournal(journal, Patience(most=1))
    await patient.begin(KEY, an_entry(), T0)
    assert await patient.interrupted() == [(KEY, an_entry())]
    ended = an_entry(finished_at=T0, outcome=done("well"))
    await patient.finish(KEY, ended)
    assert await patient.read(KEY) == ended
    for number in range(2):
        await patient.begin(Key("uid", f"r{number}"), an_entry(), T0)
    with pytest.raises(JournalError, match="has 3 requests"):
        await patient.begin(Key("uid", "r9"), an_entry(), T0)
