"""Log files: rotation, truncation, copies, half lines, huge lines, bytes that are no text."""

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import FakeClock
from support.log_sources import Running

from agent.detectors.logs import files
from agent.detectors.logs.files import FileSource
from agent.detectors.logs.line import Line
from agent.detectors.logs.splitter import Splitter


def whole(text: str, now: datetime) -> Sequence[Line]:
    return [Line(text, now, "/log")]


class Follow(Running):
    """`log` in a folder of its own, and who follows it."""

    def __init__(self, folder: Path, position: str = "") -> None:
        self.path = folder / "log"
        self.clock = FakeClock()
        super().__init__(FileSource(self.clock, str(self.path), whole), position)

    def add(self, data: str | bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data.encode() if isinstance(data, str) else data)


async def test_what_is_there_and_what_comes_is_told_in_order(tmp_path: Path) -> None:
    follow = Follow(tmp_path)
    follow.add("one\ntwo\n")
    async with follow as heard:
        await heard.until(lines=2, said=f"{follow.source.name} caught up")
        follow.add("three\nfo")
        await heard.until(lines=3)
        follow.add("ur\n")
        await heard.until(lines=4)
        assert heard.texts == ["one", "two", "three", "four"]


async def test_a_file_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    follow = Follow(tmp_path)
    async with follow as heard:
        await heard.until(said=f"{follow.source.name} broken: {follow.path}: no such file")
        follow.add("one\n")
        await heard.until(lines=1, said=f"{follow.source.name} caught up")


async def test_after_a_rotation_both_files_are_read(tmp_path: Path) -> None:
    follow = Follow(tmp_path)
    follow.add("one\n")
    async with follow as heard:
        await heard.until(lines=1)
        with follow.path.open("ab") as slow_writer:
            os.rename(follow.path, tmp_path / "log.1")
            follow.add("new\n")
            await heard.until(lines=2)
            slow_writer.write(b"late\n")
            slow_writer.flush()
            await heard.until(lines=3)
        assert heard.texts == ["one", "new", "late"]
        os.unlink(tmp_path / "log.1")
        follow.add("newer\n")
        await heard.until(lines=4)
        os.rename(follow.path, tmp_path / "log.1")
        follow.add("newest\n")
        await heard.until(lines=5)
    assert not [link for link in _open_files() if link.startswith(str(tmp_path))]


def _open_files() -> list[str]:
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue
    return found


async def test_a_file_that_is_copied_and_truncated_is_read_from_its_beginning(
    tmp_path: Path,
) -> None:
    follow = Follow(tmp_path)
    follow.add("one\ntwo\nhalf a l")
    async with follow as heard:
        await heard.until(lines=2)
        os.truncate(follow.path, 0)
        follow.add("three\n")
        await heard.until(lines=3)
        assert heard.texts == ["one", "two", "three"]


async def test_a_file_that_was_truncated_and_has_grown_again_is_read_from_its_beginning(
    tmp_path: Path,
) -> None:
    """So fast that it was never seen to be short, and while nobody looked."""
    follow = Follow(tmp_path)
    follow.add("one\ntwo\n")
    async with follow as heard:
        await heard.until(lines=2)
        os.truncate(follow.path, 0)
        follow.add("three\nfour\nfive\n")
        await heard.until(lines=5)
        assert heard.texts == ["one", "two", "three", "four", "five"]
        position = follow.source.position
    os.truncate(follow.path, 0)
    follow = Follow(tmp_path, position)
    follow.add("another log that is longer\nthan before\n")
    async with follow as heard:
        await heard.until(lines=2)
        assert heard.texts == ["another log that is longer", "than before"]


async def test_a_restart_repeats_nothing_and_misses_nothing(tmp_path: Path) -> None:
    first = Follow(tmp_path)
    first.add("one\ntwo\nhal")
    async with first as heard:
        await heard.until(lines=2)
        position = first.source.position
    first.add("f\nthree\n")
    second = Follow(tmp_path, position)
    async with second as heard:
        await heard.until(lines=2)
        assert heard.texts == ["half", "three"]


async def test_the_place_in_another_file_is_no_place(tmp_path: Path) -> None:
    first = Follow(tmp_path)
    first.add("one\ntwo\n")
    async with first as heard:
        await heard.until(lines=2)
        position = first.source.position
    (tmp_path / "log").rename(tmp_path / "log.1")
    second = Follow(tmp_path, position)
    second.add("other\nfile\n")
    async with second as heard:
        await heard.until(lines=2)
        assert heard.texts == ["other", "file"]


@pytest.mark.parametrize("position", ["", "x", "{", '{"inode": "a"}', "[]"])
async def test_a_position_that_is_none_begins_at_the_beginning(
    tmp_path: Path, position: str
) -> None:
    follow = Follow(tmp_path, position)
    follow.add("one\n")
    async with follow as heard:
        await heard.until(lines=1)


async def test_bytes_that_are_no_text_and_huge_lines_are_told_shortened(tmp_path: Path) -> None:
    follow = Follow(tmp_path)
    follow.add(b"a\xff\xfeb\n" + b"x" * 1_000_000 + b"\nafter\n")
    async with follow as heard:
        await heard.until(lines=3)
        assert heard.texts[0] == "a\ufffd\ufffdb"
        assert heard.texts[1] == "x" * files.LINE_BYTES
        assert heard.texts[2] == "after"


async def test_what_is_too_far_behind_is_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_BEHIND", 25)
    follow = Follow(tmp_path)
    follow.add("".join(f"line {n:03}\n" for n in range(100)))
    async with follow as heard:
        await heard.until(lines=2)
        assert heard.texts == ["line 098", "line 099"]
        assert f"{follow.source.name} lost: 875 bytes of {follow.path} were left out" in heard.said


async def test_a_folder_that_is_no_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    follow = Follow(tmp_path)
    async with follow as heard:
        await heard.until(said=f"{follow.source.name} broken: {follow.path}: is no ordinary file")


async def test_a_folder_that_is_missing_is_told_and_tried_again(tmp_path: Path) -> None:
    follow = Follow(tmp_path / "later")
    async with follow as heard:
        said = f"{follow.source.name} broken: {tmp_path}/later: No such file or directory"
        await heard.until(said=said)
        (tmp_path / "later").mkdir()
        follow.add("one\n")
        await follow.clock.advance(timedelta(seconds=1))
        await heard.until(lines=1)


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 20))
def test_lines_do_not_depend_on_how_the_bytes_come(parts: list[bytes], longest: int) -> None:
    splitter = Splitter(longest)
    got = [line for part in parts for line in splitter.feed(part)]
    lines = b"".join(parts).split(b"\n")[:-1]
    assert got == [line[:longest] for line in lines if line]
    assert splitter.pending <= longest
