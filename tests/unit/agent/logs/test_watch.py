"""The pure watcher: what a line changes, and what time changes."""

from datetime import UTC, datetime, timedelta

import pytest

from agent.detectors import ConditionReport, EventReport, EventSeverity, Report, ReportedStatus
from agent.detectors.logs.line import KERNEL, MANAGER, Line, bare, recorded
from agent.detectors.logs.pack import our_program
from agent.detectors.logs.program import Program
from agent.detectors.logs.state import FAULTS, State
from agent.detectors.logs.timeouts import (
    Question,
    after_boot,
    answered,
    due,
    pass_time,
    questions,
)
from agent.detectors.logs.watch import (
    EVENTS_A_MINUTE,
    KEYS,
    LINES_SUPPRESSED,
    NOT_UNDERSTOOD,
    begin,
    looked,
    unreadable,
    watch,
)

NOW = datetime(2026, 1, 10, 10, 0, 30, tzinfo=UTC)
PROGRAM = our_program()


class Host:
    """A watcher, its state, its time, and all it told."""

    def __init__(self, program: Program = PROGRAM) -> None:
        self.program, self.now = program, NOW
        self.told: list[Report] = []
        self.state: State
        self.state, self.told = begin(program, NOW)
        self._take(looked(program, self.state, program.conditions, NOW))

    def _take(self, outcome: tuple[State, list[Report]]) -> list[Report]:
        self.state, reports = outcome
        self.told += reports
        return reports

    def says(self, text: str, origin: str = KERNEL) -> list[Report]:
        return self._take(watch(self.program, self.state, Line(text, self.now, origin, uid=0),
                                self.now))  # fmt: skip

    def wait(self, **time: float) -> list[Report]:
        self.now += timedelta(**time)
        return self._take(pass_time(self.program, self.state, self.now))

    def status(self, condition: str) -> ReportedStatus:
        return self.state.conditions[condition].status

    def words(self, condition: str) -> tuple[ReportedStatus, str, str]:
        """The condition as it was last told."""
        last = [r for r in self.told if isinstance(r, ConditionReport) and r.type == condition][-1]
        return last.status, last.reason, last.message


def test_conditions_are_unknown_until_their_log_has_been_read() -> None:
    state, told = begin(PROGRAM, NOW)
    assert {one.status for one in told if isinstance(one, ConditionReport)} == {
        ReportedStatus.UNKNOWN
    }
    assert len(told) == len(PROGRAM.conditions)
    state, told = looked(PROGRAM, state, ["KernelDeadlock"], NOW)
    (one,) = told
    assert isinstance(one, ConditionReport)
    assert (one.type, one.status) == ("KernelDeadlock", ReportedStatus.FALSE)
    assert (one.reason, one.message) == ("KernelHasNoDeadlock", "kernel has no deadlock")
    assert state.conditions["XfsShutdown"].status is ReportedStatus.UNKNOWN


def test_a_fault_in_what_is_read_first_is_never_told_as_healthy() -> None:
    state, _ = begin(PROGRAM, NOW)
    line = Line("EXT4-fs (sda1): Remounting filesystem read-only", NOW, KERNEL)
    state, _ = watch(PROGRAM, state, line, NOW)
    _, told = looked(PROGRAM, state, ["ReadonlyFilesystem"], NOW)
    assert told == []


def test_a_log_that_cannot_be_read_makes_what_was_healthy_unknown() -> None:
    host = Host()
    host.says("XFS (sda1): Log I/O Error (0x2) detected. Shutting down filesystem.")
    host._take(unreadable(PROGRAM, host.state, ["XfsShutdown", "KernelDeadlock"], "gone", NOW))
    assert host.status("XfsShutdown") is ReportedStatus.TRUE
    assert host.words("KernelDeadlock") == (ReportedStatus.UNKNOWN, "LogCannotBeRead", "gone")


def test_a_line_that_nothing_knows_leaves_the_state_as_it_is() -> None:
    host = Host()
    before = host.state
    assert host.says("usb 1-1: new high-speed USB device number 2 using xhci_hcd") == []
    assert host.state is before


def test_a_condition_keeps_the_time_and_words_it_changed_with() -> None:
    host = Host()
    (told,) = host.says("XFS (sda1): Log I/O Error (0x2) detected. Shutting down filesystem.")
    assert told.at == NOW
    host.now += timedelta(minutes=1)
    assert host.says("XFS (sdb1): Log I/O Error (0x2) detected. Shutting down filesystem.") == []
    assert host.words("XfsShutdown")[2].startswith("XFS (sda1)")


def test_a_counter_line_ends_the_fault_of_its_own_device_alone() -> None:
    host = Host()
    host.says("EXT4-fs (sda1): Remounting filesystem read-only")
    host.says("EXT4-fs (sdb1): Remounting filesystem read-only")
    (told,) = host.says("EXT4-fs (sda1): re-mounted 5e6f r/w. Quota mode: none.")
    assert host.words("ReadonlyFilesystem")[2].startswith("EXT4-fs (sdb1)")
    assert host.status("ReadonlyFilesystem") is ReportedStatus.TRUE
    (told,) = host.says("EXT4-fs (sdb1): unmounting filesystem 5e6f.")
    assert isinstance(told, ConditionReport)
    assert host.words("ReadonlyFilesystem") == (
        ReportedStatus.FALSE,
        "FilesystemIsNotReadOnly",
        "Filesystem is not read-only",
    )


def test_a_repeating_fault_is_over_when_it_has_been_quiet() -> None:
    host = Host()
    host.says("nf_conntrack: nf_conntrack: table full, dropping packet")
    for _ in range(5):
        host.wait(seconds=100)
        host.says("nf_conntrack: nf_conntrack: table full, dropping packet")
        assert host.status("ConntrackTableFull") is ReportedStatus.TRUE
    assert due(PROGRAM, host.state) == host.now + timedelta(minutes=2)
    assert host.wait(seconds=119) == []
    host.wait(seconds=1)
    assert host.words("ConntrackTableFull")[0] is ReportedStatus.FALSE
    assert due(PROGRAM, host.state) is None


def test_a_rate_counts_within_its_window_and_falls_again() -> None:
    host = Host()
    line = "tg3 0000:02:00.0 eth0: Link is down"
    for _ in range(8):
        host.says(line)
        host.says(line.replace("eth0", "eth1"))
        host.wait(minutes=6)
    assert host.status("NetworkLinkFlapping") is ReportedStatus.FALSE
    for _ in range(3):
        host.says(line)
        host.wait(minutes=1)
    assert host.status("NetworkLinkFlapping") is ReportedStatus.TRUE
    host.wait(minutes=9)
    assert host.words("NetworkLinkFlapping")[:2] == (ReportedStatus.FALSE, "NetworkLinkSteady")


def test_a_check_is_asked_while_the_fault_lasts_and_its_word_ends_it() -> None:
    host = Host()
    host.says("INFO: task docker:20744 blocked for more than 120 seconds.")
    host.says("INFO: task docker:31000 blocked for more than 120 seconds.")
    assert questions(PROGRAM, host.state, host.now)[1] == []
    host.wait(seconds=30)
    host.state, asked = questions(PROGRAM, host.state, host.now)
    assert {(q.key, q.check) for q in asked} == {("20744", "task-goes-on"),
                                                ("31000", "task-goes-on")}  # fmt: skip
    assert questions(PROGRAM, host.state, host.now)[1] == [], "asked again at once"
    question = Question("KernelDeadlock", "20744", "task-goes-on")
    host._take(answered(PROGRAM, host.state, question, host.now))
    assert host.status("KernelDeadlock") is ReportedStatus.TRUE
    question = Question("KernelDeadlock", "31000", "task-goes-on")
    host._take(answered(PROGRAM, host.state, question, host.now))
    assert host.words("KernelDeadlock")[:2] == (ReportedStatus.FALSE, "KernelHasNoDeadlock")
    assert due(PROGRAM, host.state) is None


def test_a_boot_ends_what_a_boot_can_end() -> None:
    host = Host()
    host.says("EXT4-fs (sda1): Remounting filesystem read-only")
    bad = "Device: /dev/sdb [SAT], 128 Currently unreadable (pending) sectors"
    host.says(bad, "smartd.service")
    left = after_boot(PROGRAM, dict(host.state.conditions))
    assert set(left) == {"DiskBadBlock"}
    state, _ = begin(PROGRAM, NOW, left)
    assert state.conditions["DiskBadBlock"].status is ReportedStatus.TRUE
    assert state.conditions["ReadonlyFilesystem"].status is ReportedStatus.UNKNOWN


def test_a_flood_of_one_code_is_counted_and_hides_no_other() -> None:
    host = Host()
    for _ in range(1000):
        host.says("NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=python")
    (told,) = host.says("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python")
    assert isinstance(told, EventReport)
    events = [one for one in host.told if isinstance(one, EventReport)]
    assert len(events) == EVENTS_A_MINUTE + 1
    (left_out,) = host.wait(minutes=1)
    assert isinstance(left_out, EventReport)
    assert (left_out.reason, left_out.severity) == (LINES_SUPPRESSED, EventSeverity.INFO)
    assert f" {1000 - EVENTS_A_MINUTE} " in left_out.message
    assert due(PROGRAM, host.state) is None
    assert len(host.says("NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=python")) == 1


def test_memory_is_bounded_whatever_names_a_log_holds() -> None:
    host = Host()
    for number in range(400):
        host.says(f"EXT4-fs (sd{number}): Remounting filesystem read-only")
        host.says(f"INFO: task a{number}:1 blocked for more than 120 seconds.")
        host.says(f"tg3 0000:02:00.0 eth{number}: Link is down")
    assert len(host.state.conditions["ReadonlyFilesystem"].faults) == FAULTS
    assert len(host.state.event_counts) <= KEYS + 4
    assert len(host.state.counts) <= KEYS


def test_an_entry_of_several_lines_is_looked_at_line_by_line() -> None:
    host = Host()
    told = host.says('a\nfailed to reserve sandbox name "x"\nb', "containerd.service")
    assert [one.message for one in told] == ['failed to reserve sandbox name "x"']


def test_records_of_cases_name_their_source_in_a_word() -> None:
    lines = recorded("kernel", "[ 1234.567890] BUG: x\n[    0.5] y\n\n", NOW)
    assert [(one.text, one.origin) for one in lines] == [("BUG: x", KERNEL), ("y", KERNEL)]
    (line,) = recorded("smartd", "Device: /dev/sdb", NOW)
    assert (line.origin, line.uid) == ("smartd.service", 0)
    assert recorded("systemd", "x", NOW)[0].origin == MANAGER


def test_a_report_that_is_cut_off_is_told_and_one_that_is_known_is_not() -> None:
    host = Host()
    (cut,) = host.says("NVRM: Xid (PCI:0000:3b:00")
    assert isinstance(cut, EventReport)
    assert (cut.reason, cut.severity) == (NOT_UNDERSTOOD, EventSeverity.INFO)
    whole = host.says("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python")
    assert [one.reason for one in whole if isinstance(one, EventReport)] == ["NvidiaXid"]
    assert host.says("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.08") == []


BARE = "BUG: workqueue lockup - pool cpus=0"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "[  12.345] ",
        "[   12.345678][ T123] ",
        "[ 12.3] [    C3] ",
        "<4>[   12.345678] ",
        "kern  :err   : [   12.345678] ",
        "kernel: ",
        "kernel:[ 1.2] ",
        "Jan 10 10:00:00 node1 kernel: ",
        "Jan  2 10:00:00 node1 kernel: [  12.345678] ",
        "2026-01-10T10:00:00.123456+00:00 node1 kernel: [ 1.2] ",
        "[Sat Jan 10 10:00:00 2026] ",
    ],
)
def test_what_a_log_puts_before_a_line_is_no_part_of_it(before: str) -> None:
    assert bare(KERNEL, before + BARE) == BARE


@pytest.mark.parametrize("before", ["Jan 10 10:00:00 node1 java[77]: ", "java: ", "(kernel): "])
def test_what_another_writer_puts_before_a_line_stays(before: str) -> None:
    assert bare(KERNEL, before + BARE) == before + BARE


def test_a_line_that_names_another_host_stays_as_it_is() -> None:
    line = f"Feb 17 08:00:01 worker-9 kernel: {BARE}"
    assert bare(KERNEL, line, "worker-9.example.org") == BARE
    assert bare(KERNEL, line, "worker-3") == line
