"""The journal through journalctl: its end, its complaints, entries that are none.

Instead of journalctl a script that is told what to print (the real one on real journals:
tests/e2e/test_agent_logs.py).
"""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.clock import FakeClock
from support.log_sources import Running

from agent.detectors.logs.journal import ENTRY_BYTES, JournalSource
from agent.detectors.logs.line import KERNEL

pytestmark = pytest.mark.integration

SINCE = datetime(2026, 1, 1, 11, 0, tzinfo=UTC)
SCRIPT = """#!/bin/sh
echo "$@" >> {0}/asked
case "$*" in *--follow*) turn=follow ;; *) turn=read ;; esac
[ -e {0}/$turn ] && . {0}/$turn
[ $turn = read ] || exec sleep 4242
"""


class Journal(Running):
    """`reads` and `follows` are what the script does for one that ends and one that stays."""

    def __init__(self, folder: Path, position: str = "", *, reads: str = "", follows: str = ""):
        self.folder, self.clock = folder, FakeClock()
        self.set(reads, follows)
        program = folder / "journalctl"
        program.write_text(SCRIPT.format(folder))
        program.chmod(0o755)
        matches = [["_TRANSPORT=kernel"], ["_SYSTEMD_UNIT=a.service", "X=1"]]
        source = JournalSource(self.clock, matches, SINCE, program=[str(program)])
        super().__init__(source, position)

    def set(self, reads: str, follows: str) -> None:
        for turn, text in (("read", reads), ("follow", follows)):
            (self.folder / f".{turn}").write_text(text + "\n")
            os.replace(self.folder / f".{turn}", self.folder / turn)

    @property
    def asked(self) -> list[str]:
        return (self.folder / "asked").read_text().splitlines()


def entry(text: object, cursor: str) -> str:
    return json.dumps({
        "MESSAGE": text, "__CURSOR": cursor, "__REALTIME_TIMESTAMP": "1767268800000000",
        "_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0"})  # fmt: skip


def say(*entries: str) -> str:
    return "".join(f"echo '{one}'\n" for one in entries)


async def test_what_is_there_comes_first_then_what_follows_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path, reads=say(entry("one", "c1")), follows=say(entry("two", "c2")))
    async with journal as heard:
        await heard.until(lines=2)
        assert heard.texts == ["one", "two"]
        assert heard.told[0].origin == KERNEL
        assert heard.told[0].at == datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
        assert heard.said == ["journal caught up"]
        assert journal.source.position == "c2"
    read, follow = journal.asked
    filters = " _TRANSPORT=kernel + _SYSTEMD_UNIT=a.service X=1"
    assert read.endswith(f"--since=@{SINCE.timestamp():.6f}{filters}")
    assert "--follow --no-tail" in follow
    assert follow.endswith(f"--after-cursor=c1{filters}")


async def test_a_journal_without_our_entries_is_followed_from_the_look_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path, follows=say(entry("new", "c1")))
    async with journal as heard:
        await heard.until(lines=1)
    assert f"--since=@{journal.clock.now().timestamp():.6f}" in journal.asked[1]


async def test_it_goes_on_after_the_cursor_that_it_is_given(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "c7", reads=say(entry("one", "c8")))
    async with journal as heard:
        await heard.until(lines=1)
    assert "--after-cursor=c7" in journal.asked[0]


@pytest.mark.parametrize(
    ("follows", "said"),
    [
        ("echo 'no such journal' >&2; exit 1", "journal broken: journalctl: no such journal"),
        ("exit 3", "journal broken: journalctl: ended with 3"),
        ("exit 0", "journal broken: journalctl: ended"),
        ("kill -9 $$", "journal broken: journalctl: ended with -9"),
    ],
)
async def test_one_that_ends_is_told_and_started_again_where_it_was(
    tmp_path: Path, follows: str, said: str
) -> None:
    journal = Journal(tmp_path, reads=say(entry("one", "c1")), follows=follows)
    async with journal as heard:
        await heard.until(said=said)
        journal.set("", say(entry("two", "c2")))
        await journal.clock.advance(timedelta(seconds=1))
        await heard.until(lines=2)
        assert heard.texts == ["one", "two"]
    assert "--after-cursor=c1" in journal.asked[2]


async def test_one_that_is_not_installed_is_told(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    (tmp_path / "journalctl").unlink()
    async with journal as heard:
        where = f"{tmp_path}/journalctl"
        await heard.until(said=f"journal broken: journalctl: {where}: No such file or directory")


async def test_a_cursor_that_the_journal_does_not_know_is_given_up_and_told(tmp_path: Path) -> None:
    wrong = "echo 'Failed to seek to cursor: Invalid argument' >&2; exit 1"
    journal = Journal(tmp_path, "c7", reads=wrong)
    async with journal as heard:
        await heard.until(said="journal broken: journalctl: Failed to seek to cursor: "
                          "Invalid argument")  # fmt: skip
        assert heard.said[0].startswith("journal lost: the journal does not know our place")
        journal.set(say(entry("one", "d1")), "")
        await journal.clock.advance(timedelta(seconds=1))
        await heard.until(lines=1)
    assert "--since=" in journal.asked[1]


async def test_entries_that_are_none_are_counted_and_the_others_told(tmp_path: Path) -> None:
    bad = ["{", "[]", "{}", entry(None, "c2"), '{"MESSAGE": 5}', entry([104, 105], "c3")]
    huge = f"head -c {ENTRY_BYTES + 10} /dev/zero | tr '\\0' x; echo\n"
    reads = say(entry("one", "c1"), *bad) + huge + say(entry("two", "c4"))
    async with Journal(tmp_path, reads=reads) as heard:
        await heard.until(lines=3, said="journal caught up")
        assert heard.texts == ["one", "hi", "two"]
        lost = [said for said in heard.said if " lost: " in said]
        assert "journal lost: 1 entries were too long" in lost
        assert any("could not be read" in said for said in lost)


async def test_it_leaves_no_child_behind(tmp_path: Path) -> None:
    journal = Journal(tmp_path, reads=say(entry("one", "c1")))
    async with journal as heard:
        await heard.until(said="journal caught up")
    assert not _children("4242")


def _children(word: str) -> Sequence[str]:
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            pids = (task / "children").read_text().split()
        except OSError:
            continue  # a thread that has ended meanwhile
        for pid in pids:
            try:
                words = Path("/proc", pid, "cmdline").read_text()
            except OSError:
                continue
            if word in words:
                found.append(words)
    return found
