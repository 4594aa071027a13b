"""The log detector: what it tells from its start on, over restarts, boots and broken logs."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from support.clock import FakeClock, settle
from support.hanging import Hanging

from agent.detectors import (
    NOT_LOOKED_AT,
    ConditionReport,
    EventReport,
    Report,
    ReportedStatus,
)
from agent.detectors.logs import memory
from agent.detectors.logs.detector import LogDetector
from agent.detectors.logs.line import KERNEL, Line
from agent.detectors.logs.pack import our_program
from agent.detectors.logs.routes import hang_on
from agent.detectors.logs.sources import Hearer
from agent.patience import AT_ONCE, Waits

PROGRAM = our_program()
READONLY = "EXT4-fs (sda1): Remounting filesystem read-only"
BAD_BLOCKS = "Device: /dev/sdb [SAT], 128 Currently unreadable (pending) sectors"


class Told:
    """A source that says what a test tells it to. Implements Source."""

    def __init__(self, name: str, clock: FakeClock) -> None:
        self.name, self.position = name, ""
        self.begun = ""
        self.hearer: Hearer | None = None
        self._clock = clock

    async def run(self, hearer: Hearer, position: str) -> None:
        self.hearer, self.begun = hearer, position
        await asyncio.get_running_loop().create_future()

    def says(self, *texts: str, origin: str = KERNEL, age: float = 0.0) -> None:
        assert self.hearer is not None
        at = self._clock.now() - timedelta(seconds=age)
        self.hearer.lines(self.name, [Line(text, at, origin, uid=0) for text in texts])

    def caught_up(self) -> None:
        assert self.hearer is not None
        self.hearer.caught_up(self.name)


class Running:
    """A detector at work on one host. Implements Sink."""

    def __init__(
        self,
        folder: Path,
        clock: FakeClock,
        boot_id: str = "boot-1",
        complaints: Sequence[str] = (),
        patience: Waits = AT_ONCE,
    ) -> None:
        self.clock = clock
        self.kmsg, self.journal = Told("kmsg", clock), Told("journal", clock)
        self.reports: list[Report] = []
        self._changed = asyncio.Event()
        (folder / "sys/class/block").mkdir(parents=True, exist_ok=True)
        (folder / "proc/self").mkdir(parents=True, exist_ok=True)
        kept, _ = memory.read(folder)
        self.detector = LogDetector(
            PROGRAM,
            [self.kmsg, self.journal],
            hang_on(PROGRAM, "kmsg"),
            clock,
            boot_id=boot_id,
            folder=folder,
            remembered=kept,
            complaints=complaints,
            root=str(folder),
            patience=patience,
        )

    def report(self, report: Report) -> None:
        self.reports.append(report)
        self._changed.set()

    async def __aenter__(self) -> "Running":
        self._task = asyncio.ensure_future(self.detector.run(self))
        await settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def read_all(self) -> None:
        self.kmsg.caught_up()
        self.journal.caught_up()
        await self.until(lambda: self.status("KernelDeadlock") is not ReportedStatus.UNKNOWN)

    async def until(self, seen: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not seen():
                self._changed.clear()
                await self._changed.wait()

    def said(self, kind: str) -> list[ConditionReport]:
        return [r for r in self.reports if isinstance(r, ConditionReport) and r.type == kind]

    def status(self, kind: str) -> ReportedStatus:
        return self.said(kind)[-1].status

    @property
    def events(self) -> list[EventReport]:
        return [one for one in self.reports if isinstance(one, EventReport)]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_every_condition_is_unknown_first_and_healthy_when_its_log_was_read(
    tmp_path: Path, clock: FakeClock
) -> None:
    async with Running(tmp_path, clock) as host:
        assert {one.reason for one in host.reports} == {NOT_LOOKED_AT}
        assert len(host.reports) == len(host.detector.conditions)
        host.kmsg.caught_up()
        await host.until(lambda: host.status("KernelDeadlock") is ReportedStatus.FALSE)
        assert host.status("DiskBadBlock") is ReportedStatus.UNKNOWN
        host.journal.caught_up()
        await host.until(lambda: host.status("DiskBadBlock") is ReportedStatus.FALSE)


async def test_a_condition_is_told_as_it_is_at_the_end_of_the_log_not_as_it_was_on_the_way(
    tmp_path: Path, clock: FakeClock
) -> None:
    async with Running(tmp_path, clock) as host:
        host.kmsg.says(READONLY, "EXT4-fs (sda1): re-mounted 5e6f r/w. Quota mode: none.")
        host.kmsg.says("XFS (sda1): Log I/O Error (0x2) detected. Shutting down filesystem.")
        await host.read_all()
        assert [one.status for one in host.said("ReadonlyFilesystem")] == [
            ReportedStatus.UNKNOWN,
            ReportedStatus.FALSE,
        ]


async def test_a_line_is_told_without_waiting(tmp_path: Path, clock: FakeClock) -> None:
    async with Running(tmp_path, clock) as host:
        await host.read_all()
        host.kmsg.says(READONLY)
        assert host.status("ReadonlyFilesystem") is ReportedStatus.TRUE


async def test_a_check_ends_a_fault_that_no_line_ends(tmp_path: Path, clock: FakeClock) -> None:
    async with Running(tmp_path, clock) as host:
        await host.read_all()
        stat = tmp_path / "proc/20744/stat"
        stat.parent.mkdir()
        stat.write_text("20744 (docker) D 1 1")
        host.kmsg.says("INFO: task docker:20744 blocked for more than 120 seconds.")
        await clock.advance(timedelta(seconds=31))
        assert host.status("KernelDeadlock") is ReportedStatus.TRUE
        stat.write_text("20744 (docker) S 1 1")
        await clock.advance(timedelta(seconds=31))
        await host.until(lambda: host.status("KernelDeadlock") is ReportedStatus.FALSE)


async def test_a_restart_goes_on_where_it_was_and_says_nothing_well_that_was_not(
    tmp_path: Path, clock: FakeClock
) -> None:
    device = tmp_path / "sys/class/block/sda1"
    async with Running(tmp_path, clock) as host:
        device.mkdir(parents=True)
        (device / "dev").write_text("8:1\n")
        (tmp_path / "proc/1").mkdir(parents=True)
        (tmp_path / "proc/1/mountinfo").write_text("22 1 8:1 / / ro,x - ext4 /dev/sda1 ro,y\n")
        await host.read_all()
        host.kmsg.says(READONLY)
        host.kmsg.position, host.journal.position = "41", "cursor"
    async with Running(tmp_path, clock) as host:
        assert (host.kmsg.begun, host.journal.begun) == ("41", "cursor")
        assert [one.status for one in host.said("ReadonlyFilesystem")] == [ReportedStatus.TRUE]
        await host.read_all()
        assert {one.status for one in host.said("ReadonlyFilesystem")} == {ReportedStatus.TRUE}
        (tmp_path / "proc/1/mountinfo").write_text("22 1 8:1 / / rw,x - ext4 /dev/sda1 rw,y\n")
        await clock.advance(timedelta(seconds=31))
        await host.until(lambda: host.status("ReadonlyFilesystem") is ReportedStatus.FALSE)


async def test_a_boot_ends_a_fault_and_keeps_one_that_it_cannot_end(
    tmp_path: Path, clock: FakeClock
) -> None:
    async with Running(tmp_path, clock) as host:
        await host.read_all()
        host.kmsg.says(READONLY)
        host.journal.says(BAD_BLOCKS, origin="smartd.service")
        assert host.status("DiskBadBlock") is ReportedStatus.TRUE
    async with Running(tmp_path, clock, boot_id="boot-2") as host:
        await host.read_all()
        assert host.status("ReadonlyFilesystem") is ReportedStatus.FALSE
        assert host.status("DiskBadBlock") is ReportedStatus.TRUE
        await clock.advance(timedelta(hours=2))
        await host.until(lambda: host.status("DiskBadBlock") is ReportedStatus.FALSE)


async def test_what_was_told_is_on_disk_within_a_second(tmp_path: Path, clock: FakeClock) -> None:
    """So that an agent that is killed repeats no more than a second of lines."""
    async with Running(tmp_path, clock) as host:
        await host.read_all()
        host.kmsg.says(READONLY)
        host.kmsg.position = "7"
        await clock.advance(timedelta(seconds=1))
        kept, wrong = memory.read(tmp_path)
        assert (kept.positions["kmsg"], wrong) == ("7", "")
        assert list(kept.faults) == ["ReadonlyFilesystem"]


async def test_a_log_that_breaks_makes_its_conditions_unknown_until_it_is_back(
    tmp_path: Path, clock: FakeClock
) -> None:
    async with Running(tmp_path, clock) as host:
        await host.read_all()
        assert host.kmsg.hearer is not None
        host.kmsg.hearer.broken("kmsg", "/dev/kmsg: Operation not permitted")
        last = host.said("KernelDeadlock")[-1]
        assert (last.status, last.reason) == (ReportedStatus.UNKNOWN, "LogCannotBeRead")
        assert last.message == "/dev/kmsg: Operation not permitted"
        assert host.status("DiskBadBlock") is ReportedStatus.FALSE
        host.kmsg.caught_up()
        await host.until(lambda: host.status("KernelDeadlock") is ReportedStatus.FALSE)


async def test_lost_lines_are_told_once_a_minute(tmp_path: Path, clock: FakeClock) -> None:
    async with Running(tmp_path, clock) as host:
        assert host.kmsg.hearer is not None
        for number in range(100):
            host.kmsg.hearer.lost("kmsg", f"{number} kernel lines")
        assert [one.message for one in host.events] == ["0 kernel lines"]
        clock.step(timedelta(minutes=1))
        host.kmsg.hearer.lost("kmsg", "5 kernel lines")
        assert host.events[-1].message == "5 kernel lines (and 99 more times in the minutes before)"


async def test_what_is_wrong_with_the_configuration_is_an_event(
    tmp_path: Path, clock: FakeClock
) -> None:
    async with Running(tmp_path, clock, complaints=["f: rules[0].pattern '(': x"]) as host:
        (event,) = host.events
        assert (event.reason, event.message) == (
            "DetectorConfigInvalid",
            "f: rules[0].pattern '(': x",
        )


async def test_nothing_wakes_it_while_all_is_well(tmp_path: Path, clock: FakeClock) -> None:
    async with Running(tmp_path, clock) as host:
        await host.read_all()
        await clock.advance(timedelta(minutes=2))
        assert not clock._sleepers
        host.kmsg.says("usb 1-1: new high-speed USB device")
        await settle()
        assert len(clock._sleepers) == 1, "the place in the log is kept, once"
        await clock.advance(timedelta(minutes=2))
        assert not clock._sleepers


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"faults": 5}', b"\xff"])
def test_a_memory_that_cannot_be_read_is_told_and_forgotten(tmp_path: Path, content: bytes) -> None:
    (tmp_path / memory.NAME).write_bytes(content)
    kept, wrong = memory.read(tmp_path)
    assert kept == memory.Memory()
    assert wrong.startswith(f"{tmp_path}/{memory.NAME}: ")


async def test_a_disk_that_hangs_under_its_memory_keeps_nothing_from_being_told(
    tmp_path: Path, clock: FakeClock
) -> None:
    async with Running(tmp_path, clock, patience=Hanging()) as host:
        await host.read_all()
        host.kmsg.says(READONLY)
        await clock.advance(timedelta(seconds=5))  # it was to be kept meanwhile
        assert host.status("ReadonlyFilesystem") is ReportedStatus.TRUE
        host.kmsg.says("INFO: task docker:20744 blocked for more than 120 seconds.")
        await settle()
        assert any(one.reason == "TaskHung" for one in host.reports)
    assert memory.read(tmp_path)[0].positions == {}
