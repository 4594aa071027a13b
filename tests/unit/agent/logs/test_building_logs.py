"""The log detector put together: whose conditions, which sources, from when on lines count."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.clock import FakeClock

from agent.detectors.logs import memory
from agent.detectors.logs.assembly import build
from agent.detectors.logs.detector import LogDetector
from agent.detectors.logs.line import KERNEL, Line
from agent.detectors.logs.routes import matches
from agent.detectors.logs.settings import LogSettings
from agent.detectors.logs.watch import begin, watch

CLOCK = FakeClock()
NOW = CLOCK.now()


def npd(plugin: str = "kmsg", condition: str = "Mine", **fields: Any) -> dict[str, Any]:
    return {
        "plugin": plugin,
        "source": "mine-monitor",
        "lookback": "5m",
        "pluginConfig": {
            "source": "dockerd",
            "timestamp": "^.{20}",
            "message": "app: (.*)",
            "timestampFormat": "2006-01-02T15:04:05Z",
        },
        "conditions": [{"type": condition, "reason": "Well", "message": "m"}],
        "rules": [
            {"type": "temporary", "reason": "Said", "pattern": "said .*"},
            {"type": "permanent", "condition": condition, "reason": "Bad", "pattern": "bad .*"},
        ],
        **fields,
    }


def made(files: dict[str, Any], **given: Any) -> LogDetector:
    settings = LogSettings(**{"enabled": False, "kernel": "kmsg", **given})
    return build(files, settings, CLOCK)


def told(detector: LogDetector, text: str, age: float, origin: str = KERNEL) -> list[str]:
    program = detector._program
    state, _ = begin(program, NOW)
    line = Line(text, NOW - timedelta(seconds=age), origin, uid=0)
    return [report.reason for report in watch(program, state, line, NOW)[1]]


def test_lines_from_before_the_lookback_do_not_count_when_the_agent_is_new() -> None:
    detector = made({"f": npd()})
    assert told(detector, "said x", 299) == ["Said"]
    assert told(detector, "said x", 301) == []
    assert told(detector, "bad x", 301) == []


def test_our_own_packs_take_conditions_from_the_whole_log_and_events_from_the_last_minutes() -> (
    None
):
    detector = made({}, enabled=True, lookback_seconds=300)
    old = "EXT4-fs (sda1): Remounting filesystem read-only"
    assert told(detector, old, 3600) == ["FilesystemIsReadOnly"]
    assert told(detector, "NVRM: Xid (PCI:0000:3b:00): 79, pid=1", 3600) == []
    assert told(detector, "NVRM: Xid (PCI:0000:3b:00): 79, pid=1", 30) == ["NvidiaXid"]


def test_what_came_while_the_agent_was_away_counts_however_old_it_is(tmp_path: Path) -> None:
    kept = memory.keep("boot-1", {"kmsg": "7"}, {})
    memory.write(tmp_path / "detectors", kept)
    settings = LogSettings(enabled=False, kernel="kmsg")
    for boot_id, reasons in (("boot-1", ["Said"]), ("boot-2", [])):
        detector = build({"f": npd()}, settings, CLOCK, boot_id=boot_id, state_dir=str(tmp_path))
        assert told(detector, "said x", 301) == reasons
        assert detector._remembered.positions == ({"kmsg": "7"} if reasons else {})


def test_a_condition_that_another_keeps_is_not_ours() -> None:
    settings = LogSettings(kernel="kmsg")
    detector = build({"f": npd()}, settings, CLOCK, taken={"Mine", "KernelDeadlock"})
    assert "KernelDeadlock" not in detector.conditions
    assert "Mine" not in detector.conditions
    assert detector.complaints == ["f: conditions Mine: another detector keeps it: leave one out"]
    assert "XfsShutdown" in detector.conditions


def test_two_monitors_read_one_file_each_in_its_own_way() -> None:
    other = npd("filelog", "Other", logPath="/var/log/a")
    other["pluginConfig"] = other["pluginConfig"] | {"message": "other: (.*)"}
    files = {"f": npd("filelog", logPath="/var/log/a"), "g": other}
    detector = made(files)
    (source,) = detector._sources
    assert source.name == "file:/var/log/a"
    stamp = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    for word, condition in (("app", "Mine"), ("other", "Other")):
        (line,) = source._translate(f"{stamp} {word}: bad x", NOW)  # type: ignore[attr-defined]
        state, _ = begin(detector._program, NOW)
        state, reports = watch(detector._program, state, line, NOW)
        assert [one.type for one in reports] == [condition]  # type: ignore[union-attr]


def test_the_journal_is_asked_for_what_is_needed_and_no_more() -> None:
    detector = made({"f": npd("journald")})
    assert [one.name for one in detector._sources] == ["journal"]
    assert matches(detector._program.monitors, "kmsg") == [["SYSLOG_IDENTIFIER=dockerd"]]
    detector = made({}, enabled=True)
    asked = matches(detector._program.monitors, "kmsg")
    assert ["_PID=1"] in asked and ["_SYSTEMD_UNIT=kubelet.service"] in asked
    assert ["_TRANSPORT=kernel"] not in asked
    assert ["_TRANSPORT=kernel"] in matches(detector._program.monitors, "journal")
    assert [one for one in asked if asked.count(one) > 1] == []


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"kernel": "kmsg"}, ["kmsg", "journal"]),
        ({"kernel": "journal"}, ["journal"]),
        ({"kernel": "kmsg", "journal": False}, ["kmsg"]),
        ({"kernel": "auto", "kmsg": "/nowhere"}, ["journal"]),
        ({"kernel": "auto", "kmsg": "/nowhere", "journal": False}, ["kmsg"]),
    ],
)
def test_where_the_kernels_lines_are_read(settings: dict[str, Any], names: list[str]) -> None:
    assert [one.name for one in made({}, enabled=True, **settings)._sources] == names


def test_a_pipe_in_the_place_of_the_device_is_somebody_elses(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kmsg")
    detector = made({}, enabled=True, kernel="auto", kmsg=str(tmp_path / "kmsg"))
    assert [one.name for one in detector._sources] == ["journal"]


def test_a_pack_of_the_site_is_read_and_a_bad_one_left_out(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    head = "detector = 'site'\norigins = ['kernel']\n"
    good.write_text(head + "[[rule]]\nreason = 'Site'\npattern = '^site'\nsource = 's'\n")
    bad.write_text(head + "[[condition]]\ntype='A'\nreason='B'\nmessage='m'\nsource='s'\ncheck='x'")
    packs = (str(good), str(bad), str(tmp_path / "missing.toml"))
    detector = made({}, enabled=True, packs=packs)
    assert told(detector, "site x", 0) == ["Site"]
    assert detector.complaints[0].startswith(f"{tmp_path}/missing.toml: cannot be read: ")
    assert detector.complaints[1].startswith(f"{bad}: check 'x': give one of task-goes-on, ")
