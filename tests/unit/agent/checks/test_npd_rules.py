"""node-problem-detector's custom-plugin files are read as they are, and mean here what they mean
there.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.case_data import shared_folder
from support.clock import FakeClock
from support.npd_files import a_file, permanent
from support.watched import Heard

from agent.detectors import ReportedStatus
from agent.detectors.checks.detector import Turns
from agent.detectors.checks.npd import config
from agent.detectors.checks.npd.builtin import BuiltIns, name
from agent.detectors.checks.npd.monitor import PluginMonitor, program
from agent.detectors.checks.programs import DEFAULT_OUTPUT_BYTES, Ran
from agent.host.systemd import SystemdHost


class Scripted:
    """Implements Runner: every program ends with `code`."""

    def __init__(self, code: int) -> None:
        self.code = code

    async def run(
        self, argv: Sequence[str], seconds: float, output_bytes: int = DEFAULT_OUTPUT_BYTES
    ) -> Ran:
        return Ran(self.code, "said")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"rules": []}, "rules is empty"),
        ({"source": ""}, "source is empty"),
        ({"pluginConfig": {"timeout": "soon"}}, "pluginConfig.timeout: 'soon' is no duration"),
        ({"pluginConfig": {"concurrency": 0}}, "pluginConfig.concurrency 0: give 1 or more"),
        ({"rules": [permanent("/x", condition="Other")]}, "rules[0].condition 'Other': one of"),
        ({"rules": [permanent("/x", timeout="90s")]}, "rules[0].timeout 90s is above"),
        ({"rules": [permanent("/x", "not a word")]}, "rules[0].reason 'not a word'"),
        ({"rules": [{"type": "other", "reason": "R", "path": "/x"}]}, "$.rules[0].type"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(config.PluginConfigError) as told:
        config.read("/etc/npd/x.json", a_file(permanent("/x")) | change)
    assert "/etc/npd/x.json" in str(told.value)
    assert complaint in str(told.value)


def test_relative_programs_are_found_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "config" / "plugin").mkdir(parents=True)
    (tmp_path / "config" / "plugin" / "check_ntp.sh").touch()
    file = str(tmp_path / "config" / "custom-plugin-monitor.json")
    found = program("./config/plugin/check_ntp.sh", file)
    assert found == str(tmp_path / "config/plugin/check_ntp.sh")
    assert program("/bin/true", file) == "/bin/true"


def custom_rules() -> list[dict[str, Any]]:
    rows = json.loads((shared_folder() / "npd_rules.json").read_text())["rules"]
    return [row for row in rows if row["plugin"] == "custom"]


def as_file(row: dict[str, Any]) -> dict[str, Any]:
    rule = {"type": "temporary", "reason": row["reason_when_bad"], "path": row["path"]}
    rule |= {"args": row.get("args", [])}
    data = a_file(rule, invoke_interval=row["invoke_interval"])
    data |= {"source": row["source_name"], "conditions": []}
    if row["kind"] == "condition":
        rule |= {"type": "permanent", "condition": row["condition"]}
        data["conditions"] = [
            {"type": row["condition"], "reason": row["reason_when_ok"], "message": "well"}
        ]
    return data


async def test_parity_each_custom_rule_gives_its_condition_and_reasons() -> None:
    """Programs are stood in for. Those that the agent answers itself, health-checker and
    log-counter, are stood in for by a program of another name, and have tests of their own.
    """
    rows = custom_rules()
    assert len(rows) > 10
    for row in rows:
        for code, status in ((0, ReportedStatus.FALSE), (1, ReportedStatus.TRUE)):
            heard, data = Heard(), as_file(row)
            data["rules"][0]["path"] = "/opt/stand-in"
            await a_monitor(data, Scripted(code)).round(heard)
            if row["kind"] == "condition":
                last = heard.last(row["condition"])
                reason = row["reason_when_bad"] if code else row["reason_when_ok"]
                assert (last.status, last.reason) == (status, reason)
                assert (last.message, last.detector) == (
                    "said" if code else "well",
                    row["source_name"],
                )
            else:
                told = [(event.reason, event.message) for event in heard.events]
                assert told == [(row["reason_when_bad"], "said")] * code


def test_parity_rules_of_health_checker_and_log_counter_are_understood() -> None:
    own = [row for row in custom_rules() if name(row["path"]) in ("health-checker", "log-counter")]
    assert len(own) > 8
    builtins = BuiltIns(SystemdHost("unix:path=/nowhere"), FakeClock())
    for row in own:
        assert builtins.find(row["path"], row["args"]) is not None


def a_monitor(data: dict[str, Any], programs: Scripted) -> PluginMonitor:
    clock = FakeClock()
    builtins = BuiltIns(SystemdHost("unix:path=/nowhere"), clock)
    return PluginMonitor(config.read("/etc/npd/x.json", data), Turns(clock), builtins, programs)
