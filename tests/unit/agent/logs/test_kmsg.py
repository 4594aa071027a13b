"""/dev/kmsg: its records, whose they are, and reading a device that wakes us."""

import asyncio
import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import FakeClock
from support.log_sources import Heard

from agent.detectors.logs.kmsg import KmsgSource, parse
from agent.detectors.logs.line import ANYBODY, KERNEL


@pytest.mark.parametrize(
    ("record", "facility", "sequence", "since_boot", "text"),
    [
        (b"6,1964,30113680215,-;cni0: port 1\n", 0, 1964, 30113.680215, "cni0: port 1"),
        (b"3,7,1000000,-,caller=T12;BUG: x\n SUBSYSTEM=pci\n DEVICE=+pci:0\n", 0, 7, 1.0, "BUG: x"),
        (b"11,8,0,c;from user space", 1, 8, 0.0, "from user space"),
        (rb"4,9,5,-;a\x0ab\x5cc", 0, 9, 0.000005, "a\nb\\c"),
        (b"4,9,0,-;\xff\xfe", 0, 9, 0.0, "\ufffd\ufffd"),
        (b"4,9,0,-;text;with;semicolons", 0, 9, 0.0, "text;with;semicolons"),
    ],
)
def test_a_record_is_taken_apart(
    record: bytes, facility: int, sequence: int, since_boot: float, text: str
) -> None:
    got = parse(record)
    assert got is not None
    assert (got.facility, got.sequence, got.text) == (facility, sequence, text)
    assert got.since_boot == pytest.approx(since_boot)


@pytest.mark.parametrize(
    "record", [b"", b"x", b";", b"1,2;x", b"a,b,c,-;x", b"-1,2,3,-;x", b" SUBSYSTEM=pci"]
)
def test_what_is_no_record_is_none(record: bytes) -> None:
    assert parse(record) is None


@given(st.binary(max_size=9000))
def test_no_bytes_end_the_parser(data: bytes) -> None:
    got = parse(data)
    assert got is None or len(got.text) <= 8192


class Device:
    """A pipe that stands for /dev/kmsg, and somebody who reads it."""

    def __init__(self, folder: Path, position: str = "") -> None:
        self.path = folder / "kmsg"
        if not self.path.exists():
            os.mkfifo(self.path)
        self.end = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        self.clock, self.heard, self.position = FakeClock(), Heard(), position
        self.source = KmsgSource(self.clock, str(self.path), uptime=lambda: 100.0)

    async def __aenter__(self) -> "Device":
        self._task = asyncio.ensure_future(self.source.run(self.heard, self.position))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        os.close(self.end)

    def write(self, *records: str) -> None:
        os.write(self.end, "".join(f"{record}\n" for record in records).encode())


async def test_the_kernels_lines_are_told_apart_from_those_of_user_space(tmp_path: Path) -> None:
    async with Device(tmp_path) as device:
        device.write("6,1,99000000,-;one", "12,2,99500000,-;two\n DEVICE=x")
        await device.heard.until(lines=2)
        assert [(one.text, one.origin) for one in device.heard.told] == [
            ("one", KERNEL),
            ("two", ANYBODY),
        ]
        assert device.heard.told[0].at == device.clock.now() - timedelta(seconds=1)


async def test_reading_to_the_end_is_told_once(tmp_path: Path) -> None:
    async with Device(tmp_path) as device:
        await device.heard.until(said="kmsg caught up")
        device.write("6,1,0,-;one")
        await device.heard.until(lines=1)
        assert device.heard.said == ["kmsg caught up"]


async def test_overwritten_lines_are_counted(tmp_path: Path) -> None:
    async with Device(tmp_path) as device:
        device.write("6,5,0,-;one", "6,9,0,-;two")
        await device.heard.until(lines=2)
        assert "kmsg lost: 3 kernel lines were overwritten unread" in device.heard.said


async def test_a_restart_repeats_nothing_and_counts_what_it_missed(tmp_path: Path) -> None:
    async with Device(tmp_path, position="7") as device:
        device.write("6,6,0,-;old", "6,7,0,-;told", "6,8,0,-;new", "6,10,0,-;newer")
        await device.heard.until(lines=2)
        assert device.heard.texts == ["new", "newer"]
        assert device.source.position == "10"
        assert "kmsg lost: 1 kernel lines were overwritten unread" in device.heard.said


async def test_a_record_in_two_parts_is_put_together(tmp_path: Path) -> None:
    async with Device(tmp_path) as device:
        os.write(device.end, b"6,1,0,-;on")
        await device.heard.until(said="kmsg caught up")
        os.write(device.end, b"e\n6,2,0,-;two\n")
        await device.heard.until(lines=2)
        assert device.heard.texts == ["one", "two"]


async def test_a_flood_is_read_to_its_end_and_others_have_their_turn(tmp_path: Path) -> None:
    async with Device(tmp_path) as device:
        turns = 0
        for first in range(0, 4000, 400):
            device.write(*(f"6,{n},0,-;line {n}" for n in range(first, first + 400)))
            while len(device.heard.told) < first + 400:
                await asyncio.sleep(0)
                turns += 1
        assert device.heard.texts == [f"line {n}" for n in range(4000)]
        assert turns > 10


async def test_a_device_that_is_missing_is_told_and_tried_again(tmp_path: Path) -> None:
    heard, clock = Heard(), FakeClock()
    path = tmp_path / "kmsg"
    source = KmsgSource(clock, str(path), uptime=lambda: 0.0)
    task = asyncio.ensure_future(source.run(heard, ""))
    try:
        await heard.until(said=f"kmsg broken: {path}: No such file or directory")
        os.mkfifo(path)
        end = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        await clock.advance(timedelta(seconds=1))
        await heard.until(said="kmsg caught up")
        os.close(end)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def test_a_time_never_lies_in_the_future() -> None:
    source = KmsgSource(FakeClock(), uptime=lambda: 50.0)
    booted = datetime(2026, 1, 1, tzinfo=UTC)
    (line,) = source.took(b"6,1,99000000,-;x\n", Heard(), booted)
    assert line.at == booted + timedelta(seconds=50)


def test_what_is_no_record_is_counted_and_told() -> None:
    source, heard = KmsgSource(FakeClock()), Heard()
    lines = source.took(b"6,1,99000000,-;x\n6,zwei,9;y\nno record\n", heard, source.booted())
    assert [line.text for line in lines] == ["x"]
    assert heard.said == ["kmsg lost: 2 kernel records could not be read"]
