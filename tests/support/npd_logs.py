"""node-problem-detector's system-log monitors: its files as the shared data lists their rules, and
what it makes of lines, restated from its documentation without any shortcut.
"""

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import re2

LOG_PLUGINS = ("kmsg", "journald", "filelog")
SYSLOG = {"timestamp": "^.{15}", "message": r"\]: (.*)", "timestampFormat": "Jan _2 15:04:05"}


def npd_files(folder: Path) -> dict[str, dict[str, Any]]:
    """File -> configuration, put together from the rules and healthy states of the shared data."""
    rules = json.loads((folder / "npd_rules.json").read_text())["rules"]
    healthy = {
        one["type"]: one["message"]
        for one in json.loads((folder / "npd_conditions.json").read_text())["healthy"]
    }
    files: dict[str, dict[str, Any]] = {}
    for rule in rules:
        if rule["plugin"] not in LOG_PLUGINS:
            continue
        file = files.setdefault(rule["file"], _head(rule))
        made = {"type": "temporary", "reason": rule["reason_when_bad"], "pattern": rule["pattern"]}
        if rule["kind"] == "condition":
            kind = rule["condition"]
            made |= {"type": "permanent", "condition": kind}
            reason = rule["reason_when_ok"]
            file["conditions"].append(
                {"type": kind, "reason": reason, "message": healthy.get(kind, "it is well")}
            )
        file["rules"].append(made)
    return files


def _head(rule: dict[str, Any]) -> dict[str, Any]:
    plugin = rule["plugin"]
    config = {"source": rule["log_source"]} if plugin == "journald" else {}
    return {
        "plugin": plugin,
        "pluginConfig": SYSLOG if plugin == "filelog" else config,
        "logPath": rule["log_path"],
        "lookback": rule["lookback"],
        "bufferSize": 10,
        "source": rule["source_name"],
        "conditions": [],
        "rules": [],
    }


@dataclass
class NpdModel:
    """One monitor. `take` a line: [(condition or "", reason, message)] of what it tells anew."""

    config: dict[str, Any]
    conditions: dict[str, tuple[bool, str]] = field(init=False)

    def __post_init__(self) -> None:
        size = self.config["bufferSize"]
        self._texts = deque([""] * size, maxlen=size)
        self._lines: deque[str] = deque(maxlen=size)
        self.conditions = {c["type"]: (False, c["reason"]) for c in self.config["conditions"]}
        self._rules = [(r, re2.compile(r["pattern"] + r"\z")) for r in self.config["rules"]]

    def take(self, line: str) -> list[tuple[str, str, str]]:
        line = line.strip()
        self._texts.append(line)
        self._lines.append(line)
        told = []
        for rule, pattern in self._rules:
            joined = "\n".join(self._texts)
            found = pattern.search(joined)
            if not found:
                continue
            message = "\n".join(self._touched(len(joined) - found.start() - 1))
            kind, reason = rule.get("condition", ""), rule["reason"]
            if kind:
                if self.conditions[kind] == (True, reason):
                    continue
                self.conditions[kind] = (True, reason)
            told.append((kind, reason, message))
        return told

    def _touched(self, reach: int) -> Sequence[str]:
        """Whole lines from the end, until they hold the place where the match begins."""
        touched: list[str] = []
        total = 0
        for line in reversed(self._lines):
            touched.insert(0, line)
            total += len(line) + 1
            if total > reach:
                break
        return touched
