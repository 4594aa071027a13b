"""Custom plugins as real programs: what their exit says, and that nothing of them is left."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.clock import FakeClock
from support.npd_files import a_file, permanent, temporary
from support.running import gone, until
from support.watched import Heard

from agent.detectors import NOT_LOOKED_AT, EventSeverity, ReportedStatus
from agent.detectors.checks import CANNOT_RUN
from agent.detectors.checks.detector import Turns
from agent.detectors.checks.npd import config
from agent.detectors.checks.npd.builtin import BuiltIns
from agent.detectors.checks.npd.monitor import PluginMonitor
from agent.detectors.checks.npd.protocol import CANNOT_TELL
from agent.host.systemd import SystemdHost

pytestmark = pytest.mark.integration


class World:
    def __init__(self, folder: Path) -> None:
        self.folder, self.clock, self.heard = folder, FakeClock(), Heard()

    def script(self, name: str, body: str) -> Path:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    def heard_more_than(self, reports: int) -> bool:
        return len(self.heard.reports) > reports

    def monitor(self, data: dict[str, Any]) -> PluginMonitor:
        builtins = BuiltIns(SystemdHost("unix:path=/nowhere"), self.clock)
        read = config.read(str(self.folder / "ntp.json"), data)
        return PluginMonitor(read, Turns(self.clock), builtins)

    async def result(self, data: dict[str, Any]) -> tuple[ReportedStatus, str, str]:
        await self.monitor(data).round(self.heard)
        last = self.heard.last("NTPProblem")
        return last.status, last.reason, last.message


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_exit_0_is_well_and_told_in_the_condition_s_own_words(world: World) -> None:
    said = await world.result(a_file(permanent(world.script("check", "echo fine"))))
    assert said == (ReportedStatus.FALSE, "NTPIsUp", "ntp service is up")
    assert world.heard.events == []


async def test_exit_1_is_a_fault_with_the_rule_s_reason_and_the_output(world: World) -> None:
    said = await world.result(
        a_file(permanent(world.script("check", "echo ' ntp is down'; exit 1")))
    )
    assert said == (ReportedStatus.TRUE, "NTPIsDown", "ntp is down")


@pytest.mark.parametrize("code", [2, 3, 42])
async def test_every_other_status_says_nothing(world: World, code: int) -> None:
    said = await world.result(a_file(permanent(world.script("check", f"echo hm; exit {code}"))))
    assert said[:2] == (ReportedStatus.UNKNOWN, CANNOT_TELL)
    assert "hm" in said[2]
    assert world.heard.events == []


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("no-such-program-anywhere", "missing (127)"),
        ("exit 126", "cannot be executed (126)"),
        ("kill -9 $$", "killed by signal 9"),
        ("sleep 60", "no result within 0.2 s"),
    ],
)
async def test_f01_a_broken_check_is_unknown_and_an_event_says_so(
    world: World, body: str, why: str
) -> None:
    rule = permanent(world.script("check", body), timeout="200ms" if "sleep" in body else "")
    said = await world.result(a_file(rule))
    assert said[:2] == (ReportedStatus.UNKNOWN, CANNOT_RUN)
    assert why in said[2]
    (event,) = world.heard.events
    assert (event.reason, event.severity) == (CANNOT_RUN, EventSeverity.WARNING)
    assert why in event.message


def a_folder(path: Path) -> None:
    path.mkdir()


def no_program(path: Path) -> None:
    path.write_text("exit 1\n")
    path.chmod(0o755)


def not_executable(path: Path) -> None:
    path.write_text("#!/bin/sh\nexit 1\n")


def missing(path: Path) -> None:
    pass


@pytest.mark.parametrize("make", [missing, not_executable, no_program, a_folder])
async def test_f01_a_check_that_cannot_be_started_is_unknown(
    world: World, make: Callable[[Path], None]
) -> None:
    path = world.folder / "check"
    make(path)
    said = await world.result(a_file(permanent(path)))
    assert said[:2] == (ReportedStatus.UNKNOWN, CANNOT_RUN)
    assert [event.reason for event in world.heard.events] == [CANNOT_RUN]


async def test_f01_no_event_of_the_rule_is_told_by_a_broken_check(world: World) -> None:
    await world.monitor(a_file(temporary("/no/such/check"))).round(world.heard)
    assert [event.reason for event in world.heard.events] == [CANNOT_RUN]


async def test_a_broken_check_is_told_once_until_it_breaks_otherwise(world: World) -> None:
    path = world.script("check", "exit 127")
    monitor = world.monitor(a_file(permanent(path)))
    for body in ("exit 127", "exit 127", "exit 126", "exit 0", "exit 127"):
        world.script("check", body)
        await monitor.round(world.heard)
    assert len(world.heard.events) == 3
    assert [status for status, _ in world.heard.history("NTPProblem")] == [
        *(ReportedStatus.UNKNOWN, ReportedStatus.FALSE, ReportedStatus.UNKNOWN)
    ]


async def test_a_temporary_rule_tells_an_event_each_time_and_no_condition(world: World) -> None:
    monitor = world.monitor(a_file(temporary(world.script("check", "echo down; exit 1"))))
    await monitor.round(world.heard)
    await monitor.round(world.heard)
    told = [(event.reason, event.message, event.severity) for event in world.heard.events]
    assert told == [("NTPIsDown", "down", EventSeverity.WARNING)] * 2
    assert world.heard.history("NTPProblem") == []


async def test_a_condition_clears_when_the_check_is_well_again(world: World) -> None:
    path = world.script("check", "exit 1")
    monitor = world.monitor(a_file(permanent(path)))
    await monitor.round(world.heard)
    world.script("check", "exit 0")
    await monitor.round(world.heard)
    assert world.heard.history("NTPProblem") == [
        (ReportedStatus.TRUE, "NTPIsDown"),
        (ReportedStatus.FALSE, "NTPIsUp"),
    ]


async def test_rules_of_one_condition_speak_together(world: World) -> None:
    well, bad = world.script("well", "exit 0"), world.script("bad", "echo bad; exit 1")
    both = a_file(permanent(well, "First"), permanent(bad, "Second"))
    assert (await world.result(both))[:2] == (ReportedStatus.TRUE, "Second")
    unsure = world.script("unsure", "exit 5")
    assert (await world.result(a_file(permanent(well), permanent(unsure))))[
        0
    ] is ReportedStatus.UNKNOWN
    assert (await world.result(a_file(permanent(unsure), permanent(bad))))[0] is ReportedStatus.TRUE


@pytest.mark.parametrize(("follow", "told"), [(False, "1"), (True, "2")])
async def test_a_new_message_is_told_only_where_the_file_asks_for_it(
    world: World, follow: bool, told: str
) -> None:
    path = world.script("check", "echo 1; exit 1")
    setting = {"enable_message_change_based_condition_update": follow}
    monitor = world.monitor(a_file(permanent(path), **setting))
    await monitor.round(world.heard)
    world.script("check", "echo 2; exit 1")
    await monitor.round(world.heard)
    assert world.heard.last("NTPProblem").message == told


async def test_output_is_bounded_by_the_file_s_length(world: World) -> None:
    path = world.script("check", "head -c 3000000 /dev/zero | tr '\\0' x; exit 1")
    assert (await world.result(a_file(permanent(path))))[2] == "x" * 80
    assert (await world.result(a_file(permanent(path), max_output_length=7)))[2] == "x" * 7


async def test_no_shell_reads_the_arguments(world: World) -> None:
    path = world.script("check", 'echo "$1"; exit 1')
    rule = permanent(path, args=["$(touch /tmp/x); *"])
    assert (await world.result(a_file(rule)))[2] == "$(touch /tmp/x); *"


async def test_children_that_hang_end_with_the_check(world: World) -> None:
    pids = world.folder / "pids"
    body = (
        f"sleep 300 & echo $! > {pids}.new\necho $$ >> {pids}.new\nmv {pids}.new {pids}\nsleep 300"
    )
    path = world.script("check", body)
    for limit in ("500ms", "4s", "16s"):  # a busy machine takes its time to start it
        assert (await world.result(a_file(permanent(path, timeout=limit))))[
            0
        ] is ReportedStatus.UNKNOWN
        if pids.exists():
            break
    for pid in pids.read_text().split():
        await gone(int(pid))


async def test_a_child_that_keeps_the_output_open_does_not_hold_the_check(world: World) -> None:
    path = world.script("check", f"sleep 300 & echo $! > {world.folder}/pid; echo bad; exit 1")
    said = await world.result(a_file(permanent(path)))
    assert said == (ReportedStatus.TRUE, "NTPIsDown", "bad")
    await gone(int((world.folder / "pid").read_text()))


async def test_first_nothing_is_known_and_then_each_interval_is_looked(world: World) -> None:
    path = world.script("check", f"echo x >> {world.folder}/runs")
    monitor = world.monitor(a_file(permanent(path)))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(monitor.run(world.heard))
        for runs in (1, 2, 3):
            await until(partial(world.heard_more_than, runs), what="a look")
            await world.clock.advance(timedelta(seconds=34))
        running.cancel()
    assert world.heard.history("NTPProblem")[0] == (ReportedStatus.UNKNOWN, NOT_LOOKED_AT)
    assert (world.folder / "runs").read_text().count("x") >= 3
