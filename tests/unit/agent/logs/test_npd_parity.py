"""node-problem-detector's configurations give the condition, reason and message that it gives.

Differences on purpose are in docs/detectors-logs.md, and each has its test here or in test_origin.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.case_data import shared_folder
from support.clock import FakeClock
from support.npd_logs import NpdModel, npd_files

from agent.detectors import ConditionReport, EventReport, EventSeverity, Report, ReportedStatus
from agent.detectors.logs.assembly import build
from agent.detectors.logs.line import KERNEL, Line
from agent.detectors.logs.npd import FILELOG, NpdMonitor, read_npd
from agent.detectors.logs.program import Program, join, may_span
from agent.detectors.logs.settings import LogSettings
from agent.detectors.logs.watch import begin, looked, watch

NOW = datetime(2026, 1, 10, 10, 0, 30, tzinfo=UTC)

LINES = {
    "CCPPCrash": "Process 1234 (java) crashed in main()",
    "UncaughtException": "Process 1 (x) of user 0 encountered an uncaught ValueError exception",
    "XorgCrash": "Display server Xorg crash in foo",
    "VMcore": "System encountered a fatal error in nmi",
    "KernelOops": "BUG: unable to handle kernel NULL pointer dereference at 0000000000000018",
    "DiskBadBlock": "Device: /dev/sdb [SAT], 128 Currently unreadable (pending) sectors",
    "CorruptDockerImage": "Error trying v2 registry: failed to register layer: rename "
    "/var/lib/docker/image/a /var/lib/docker/image/b: directory not empty",
    "CorruptDockerOverlay2": "Error: returned error: readlink /var/lib/docker/overlay2/l: "
    "invalid argument",
    "DockerContainerStartupFailure": "OCI runtime start failed: container process is already "
    "dead: unknown",
    "OOMKilling": "Killed process 1012 (heapster) total-vm:327128kB, anon-rss:306328kB, "
    "file-rss:11132kB",
    "TaskHung": "INFO: task docker:20744 blocked for more than 120 seconds.",
    "UnregisterNetDevice": "unregister_netdevice: waiting for lo to become free. Usage count = 1",
    "DockerHung": "INFO: task docker:20744 blocked for more than 120 seconds.",
    "Ext4Error": "EXT4-fs error (device sda1): ext4_lookup:1592: inode #131: comm a: deleted",
    "Ext4Warning": "EXT4-fs warning (device sda1): ext4_end_bio:346: I/O error",
    "IOError": "Buffer I/O error on dev sda1, logical block 1, async page read",
    "XfsHasShutdown": "XFS (sda1): Log I/O Error Detected. Shutting down filesystem",
    "MemoryReadError": "EDAC MC0: 1 CE memory read error on CPU_SrcID#0",
    "CperHardwareErrorCorrected": "{2}[Hardware Error]: event severity: corrected",
    "CperHardwareErrorRecoverable": "{2}[Hardware Error]: event severity: recoverable",
    "CperHardwareErrorFatal": "{1}[Hardware Error]: event severity: fatal",
    "FilesystemIsReadOnly": "EXT4-fs (sda1): Remounting filesystem read-only",
    "KubeletStart": "Started kubelet.service - kubelet: The Kubernetes Node Agent.",
    "DockerStart": "Starting docker.service - Docker Application Container Engine...",
    "ContainerdStart": "Starting containerd container runtime...",
    "ContainerCreationFailed": "failed to create containerd container: error unpacking image: "
    "wrong diff id calculated on extraction",
    "CorruptContainerImageLayer": "failed to pull and unpack image: failed to extract layer: "
    "archive/tar: invalid tar header",
    "HCSEmptyLayerchain": "Failed to unmarshall layerchain json - invalid character '\x00' "
    "looking for beginning of value",
}
OF_PATTERN = {
    r"divide error: 0000 \[#\d+\] SMP": "divide error: 0000 [#0] SMP",
    r"System encountered a non-fatal error in \S+": "System encountered a non-fatal error in x",
}
NOISE = [
    "",
    *OF_PATTERN.values(),
    "eth0: link becomes ready",
    "INFO: task dockerd:1042 blocked for more than 120 seconds.",
    "xEXT4-fs error y",
    "Remounting filesystem read-only now",
]


class Ours:
    """Our detector on one file alone."""

    def __init__(self, monitor: NpdMonitor) -> None:
        self.monitor = monitor
        self.program: Program = join([monitor.part])
        self.state, self.first = begin(self.program, NOW)
        self.state, self.healthy = looked(self.program, self.state, self.program.conditions, NOW)
        selector = monitor.part[0].selector
        self._origin = next(iter(selector.origins), "docker.service")
        self._identifier = selector.identifier

    def take(self, text: str) -> list[Report]:
        line = Line(text.strip(), NOW, self._origin, identifier=self._identifier, uid=0)
        self.state, reports = watch(self.program, self.state, line, NOW)
        return reports


def told(reports: list[Report]) -> list[tuple[str, str, str]]:
    return [
        (one.type if isinstance(one, ConditionReport) else "", one.reason, one.message)
        for one in reports
    ]


def monitors() -> Iterator[tuple[str, dict[str, Any]]]:
    """Those of Linux: a path of another system is refused by name."""
    for name, config in npd_files(shared_folder()).items():
        if not config["logPath"].startswith("C:"):
            yield name, config


def test_every_file_of_linux_is_read() -> None:
    names = [name for name, _ in monitors()]
    assert {"config/kernel-monitor.json", "config/systemd-monitor.json"} <= set(names)
    for name, config in monitors():
        read = read_npd(name, config)
        assert len(read.part[0].rules) == len(config["rules"])


def test_what_a_running_one_wrote_is_what_we_tell() -> None:
    """Recorded: five healthy conditions, five lines, five faulty conditions and their Events."""
    data = json.loads((shared_folder() / "npd_conditions.json").read_text())
    files = dict(monitors())
    for name in ("kernel-monitor", "readonly-monitor", "docker-monitor"):
        ours = Ours(read_npd(name, files[f"config/{name}.json"]))
        by_type = {one.type: one for one in ours.healthy if isinstance(one, ConditionReport)}
        for want in (one for one in data["healthy"] if one["type"] in by_type):
            got = by_type[want["type"]]
            assert (got.status, got.reason, got.message, got.detector) == (
                ReportedStatus.FALSE, want["reason"], want["message"], name)  # fmt: skip
        for want in (one for one in data["faulty"] if one["type"] in by_type):
            reports = ours.take(data["input_lines"][want["type"]])
            (got,) = [one for one in reports if isinstance(one, ConditionReport)]
            assert (got.type, got.status, got.reason, got.message, got.detector) == (
                want["type"], ReportedStatus.TRUE, want["reason"], want["message"], name,
            )  # fmt: skip
            events = {(one.reason, one.message) for one in reports if isinstance(one, EventReport)}
            temporary = {
                (one["reason"], one["message"])
                for one in data["events"]
                if one["source"]["component"] == name
                and not one["message"].startswith("Node condition")
                and one["message"] == want["message"]
            }
            assert events == temporary


def test_every_rule_tells_as_theirs_does() -> None:
    for name, config in monitors():
        for rule in config["rules"]:
            line = OF_PATTERN.get(rule["pattern"], LINES[rule["reason"]])
            ours, theirs = Ours(read_npd(name, config)), NpdModel(config)
            got, want = ours.take(line), theirs.take(line)
            assert (rule.get("condition", ""), rule["reason"], line) in want
            assert told(got) == want
            for one in got:
                if isinstance(one, EventReport):
                    assert (one.severity, one.detector) == (EventSeverity.WARNING, config["source"])


@given(st.data())
def test_any_lines_tell_as_theirs_do(data: st.DataObject) -> None:
    """Whatever comes before and after a line; up to the limit of Events in a minute."""
    name, config = data.draw(st.sampled_from(list(monitors())))
    lines = st.sampled_from([*LINES.values(), *NOISE])
    edge = st.sampled_from(["", "x", "x ", " ", "\t"])
    ours, theirs = Ours(read_npd(name, config)), NpdModel(config)
    for line in data.draw(st.lists(lines, max_size=12)):
        text = data.draw(edge) + line + data.draw(edge)
        assert told(ours.take(text)) == theirs.take(text)


SPANNING = [
    r"first\nsecond", r"(?s)BUG.*Trace", r"a\s+b", r"^x$", r"x$", r"[^q]+z", r"one[\s\S]*two.*",
    r"alone", r"(?i)HELLO.*", r"\Aonly", r"(?m)^y", r"\[a\]", r"task [\S ]+:\w+",
]  # fmt: skip


@given(
    st.sampled_from(SPANNING),
    st.integers(1, 4),
    st.lists(
        st.sampled_from(["first", "second", "BUG: x", "Call Trace", "a", "b", "x", "y", "qz",
                         "one", "two", "alone", "hello you", "only", "[a]", "task a b:1", ""])
    ),
)  # fmt: skip
def test_patterns_over_several_lines_match_as_theirs_do(
    pattern: str, size: int, lines: list[str]
) -> None:
    config = {
        "plugin": "kmsg",
        "source": "s",
        "bufferSize": size,
        "conditions": [],
        "rules": [{"type": "temporary", "reason": "R", "pattern": pattern}],
    }
    ours, theirs = Ours(read_npd("f", config)), NpdModel(config)
    for line in lines[:20]:
        assert told(ours.take(line)) == theirs.take(line)


def test_better_an_alternative_is_not_told_again_with_every_later_line() -> None:
    """`a|b` is completed to `a|b` + end of text: there `a` counts wherever it is buffered."""
    config = {"plugin": "kmsg", "source": "s", "bufferSize": 2, "conditions": [],
              "rules": [{"type": "temporary", "reason": "R", "pattern": "a|b"}]}  # fmt: skip
    ours, theirs = Ours(read_npd("f", config)), NpdModel(config)
    assert [len(ours.take(line)) for line in ("[a]", "x", "y")] == [1, 0, 0]
    assert [len(theirs.take(line)) for line in ("[a]", "x", "y")] == [1, 1, 0]


def test_a_pattern_that_may_span_is_known() -> None:
    spans = [p for p in SPANNING if may_span(p)]
    assert {r"first\nsecond", r"(?s)BUG.*Trace", r"a\s+b", r"^x$", r"[^q]+z"} <= set(spans)
    shipped = [rule["pattern"] for _, config in monitors() for rule in config["rules"]]
    assert not [pattern for pattern in shipped if may_span(pattern)]


def test_better_a_condition_clears_again_where_we_know_how() -> None:
    files = dict(monitors())
    name = "config/readonly-monitor.json"
    detector = build({name: files[name]}, LogSettings(journal=False), FakeClock(NOW))
    program = detector._program
    state, _ = begin(program, NOW)
    state, _ = looked(program, state, program.conditions, NOW)
    line = Line(LINES["FilesystemIsReadOnly"], NOW, KERNEL)
    state, reports = watch(program, state, line, NOW)
    (fault,) = reports
    assert isinstance(fault, ConditionReport)
    assert (fault.status, fault.detector) == (ReportedStatus.TRUE, "readonly-monitor")
    line = Line("EXT4-fs (sda1): re-mounted 5e6f r/w. Quota mode: none.", NOW, KERNEL)
    state, reports = watch(program, state, line, NOW + timedelta(seconds=5))
    (well,) = reports
    assert isinstance(well, ConditionReport)
    assert (well.type, well.status) == ("ReadonlyFilesystem", ReportedStatus.FALSE)


def test_the_lines_of_a_file_are_taken_apart_as_configured() -> None:
    config = dict(monitors())["config/kernel-monitor-filelog.json"]
    config["pluginConfig"] = {
        "timestamp": "^.{15}",
        "message": r"kernel: \[.*\] (.*)",
        "timestampFormat": "Jan _2 15:04:05",
    }
    config["skipList"] = [" audit:"]
    read = read_npd("f", config)
    assert read.plugin == FILELOG and read.translator is not None
    take = read.translator.translate
    text = "Jan 10 09:59:58 h kernel: [12.3] INFO: task docker:1 blocked for more than 120 seconds."
    line = take(text, "/var/log/kern.log", NOW)
    assert line is not None
    assert line.text == "INFO: task docker:1 blocked for more than 120 seconds."
    assert take("Jan 10 09:59:58 h kernel: no stamp", "/x", NOW) is None
    assert take("no time h kernel: [1.0] x", "/x", NOW) is None
    assert take("Jan 10 09:59:58 h kernel: [1.0] audit: audit: x", "/x", NOW) is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"plugin": "syslog"}, "f: plugin 'syslog': one of kmsg, journald, filelog"),
        ({"bufferSize": "10"}, "f: bufferSize '10': write a whole number"),
        ({"bufferSize": -1}, "f: bufferSize -1: give 1 to 1000"),
        ({"lookback": "5 minutes"}, "f: lookback '5 minutes': write a duration like 5m or 1h30m"),
        ({"source": ""}, "f: source '': name the monitor, such as kernel-monitor"),
        ({"rules": [{"type": "permanent", "condition": "X", "reason": "R", "pattern": "a"}]},
         "f: rules[0].condition 'X': list it under conditions"),
        ({"rules": [{"type": "temp", "reason": "R", "pattern": "a"}]},
         "f: rules[0].type 'temp': give temporary (an Event) or permanent (a condition)"),
        ({"rules": [{"type": "temporary", "reason": "R", "pattern": "a(?=b)"}]},
         "f: rules[0].pattern 'a(?=b)': invalid perl operator: (?="),
        ({"rules": [{"type": "temporary", "reason": "two words", "pattern": "a"}]},
         "f: rules[0].reason 'two words': give one word, such as DockerHung"),
        ({"rules": {}, "conditions": 5}, "f: conditions 5: write a list [...]"),
        ({"rules": [7]}, "f: rules[0] 7: write a JSON object {...}"),
        ({"plugin": "journald"},
         "f: pluginConfig.source '': give the SYSLOG_IDENTIFIER to follow"),
        ({"plugin": "filelog", "logPath": "kern.log"},
         "f: logPath 'kern.log': give the full path of the file"),
        ({"plugin": "filelog", "logPath": "/a", "pluginConfig": {
            "timestamp": "^.{15}", "message": "(", "timestampFormat": "soon"}},
         "f: pluginConfig.message '(': missing ): (; write it in the syntax of RE2"),
    ],
)  # fmt: skip
def test_a_bad_file_is_told_with_field_value_and_remedy_and_the_good_ones_run(
    change: dict[str, Any], complaint: str
) -> None:
    good = {
        "plugin": "kmsg",
        "source": "kernel-monitor",
        "conditions": [{"type": "Good", "reason": "Ok", "message": "m"}],
        "rules": [{"type": "permanent", "condition": "Good", "reason": "R", "pattern": "a"}],
    }
    bad = {"plugin": "kmsg", "source": "s", "rules": []} | change
    given_settings = LogSettings(enabled=False)
    detector = build({"f": bad, "good.json": good}, given_settings, FakeClock(NOW))
    assert detector.complaints[0].startswith(complaint)
    assert detector.conditions == ("Good",)


def test_names_of_fields_count_without_their_case_and_unknown_ones_are_skipped() -> None:
    config = {"Plugin": "kmsg", "SOURCE": "s", "metricsReporting": True, "rules": None}
    assert read_npd("f", config).part[0].detector == "s"
