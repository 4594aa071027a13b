"""Configuration of a custom-plugin monitor.

Source of fields, defaults and exit codes: kubernetes/node-problem-detector,
docs/custom_plugin_monitor.md and config/*.json (Apache-2.0). Unknown fields are ignored, as there.
Errors name file, field and what to do.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from kubenode.runtime.duration import seconds

PLUGIN = "custom"
WORD = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
"""Condition types and reasons that the API server accepts."""


class PluginConfigError(ValueError):
    """The configuration is invalid; one sentence with file and field."""


class RuleType(StrEnum):
    """TEMPORARY: an Event each time. PERMANENT: a condition."""

    TEMPORARY = "temporary"
    PERMANENT = "permanent"


class PluginCondition(msgspec.Struct, frozen=True):
    """A condition, with reason and message of its healthy state."""

    type: str
    reason: str
    message: str = ""


class PluginRule(msgspec.Struct, frozen=True):
    type: RuleType
    reason: str
    path: str
    condition: str = ""
    args: list[str] = []
    timeout: str = ""

    @property
    def argv(self) -> list[str]:
        return [self.path, *self.args]


class Global(msgspec.Struct, frozen=True):
    """Common settings. Durations as in Go, lengths in bytes."""

    invoke_interval: str = "30s"
    timeout: str = "5s"
    max_output_length: int = 80
    concurrency: int = 3
    enable_message_change_based_condition_update: bool = False
    skip_initial_status: bool = False


class _File(msgspec.Struct, frozen=True):
    plugin: str
    source: str
    plugin_config: Global = msgspec.field(default_factory=Global, name="pluginConfig")
    conditions: list[PluginCondition] = []
    rules: list[PluginRule] = []


@dataclass(frozen=True, slots=True)
class PluginMonitorConfig:
    """A monitor.

    name: the file's `source`, which Events name
    every, timeout: seconds; a rule may have a shorter timeout
    file: its path, for complaints and relative paths
    """

    name: str
    file: str
    every: float
    timeout: float
    most_output: int
    at_once: int
    follow_message: bool
    silent_start: bool
    conditions: tuple[PluginCondition, ...]
    rules: tuple[PluginRule, ...]

    def limit(self, rule: PluginRule) -> float:
        return seconds(rule.timeout) if rule.timeout else self.timeout


def read(file: str, data: Mapping[str, Any]) -> PluginMonitorConfig:
    """Parse a file. Raises PluginConfigError."""
    try:
        given = msgspec.convert(data, _File)
    except msgspec.ValidationError as error:
        raise PluginConfigError(f"{file}: {error}") from error
    common = given.plugin_config
    monitor = PluginMonitorConfig(
        name=given.source,
        file=file,
        every=_seconds(file, "pluginConfig.invoke_interval", common.invoke_interval),
        timeout=_seconds(file, "pluginConfig.timeout", common.timeout),
        most_output=common.max_output_length,
        at_once=common.concurrency,
        follow_message=common.enable_message_change_based_condition_update,
        silent_start=common.skip_initial_status,
        conditions=tuple(given.conditions),
        rules=tuple(given.rules),
    )
    for complaint in _complaints(monitor):
        raise PluginConfigError(f"{file}: {complaint}")
    return monitor


def _seconds(file: str, field: str, text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise PluginConfigError(f"{file}: {field}: {error}") from error


def _complaints(monitor: PluginMonitorConfig) -> list[str]:
    complaints = []
    if not monitor.name:
        complaints.append("source is empty: name the monitor")
    if not monitor.rules:
        complaints.append("rules is empty: there is nothing to check")
    for field, value in (
        ("pluginConfig.max_output_length", monitor.most_output),
        ("pluginConfig.concurrency", monitor.at_once),
    ):
        if value < 1:
            complaints.append(f"{field} {value}: give 1 or more")
    types = [condition.type for condition in monitor.conditions]
    for kind in types:
        if types.count(kind) > 1:
            complaints.append(f"condition {kind} is listed twice: leave one out")
        if not WORD.fullmatch(kind):
            complaints.append(f"condition {kind!r}: give one word, such as NTPProblem")
    for number, rule in enumerate(monitor.rules):
        complaints += [f"rules[{number}]{why}" for why in _wrong(monitor, rule, types)]
    return complaints


def _wrong(monitor: PluginMonitorConfig, rule: PluginRule, types: list[str]) -> list[str]:
    complaints = []
    if not rule.path:
        complaints.append(".path is empty: name the program")
    if not WORD.fullmatch(rule.reason):
        complaints.append(f".reason {rule.reason!r}: give one word, such as NTPIsDown")
    if rule.type is RuleType.PERMANENT and rule.condition not in types:
        known = ", ".join(types) or "none"
        complaints.append(f".condition {rule.condition!r}: one of the file's conditions: {known}")
    try:
        limit = monitor.limit(rule)
    except ValueError as error:
        return [*complaints, f".timeout: {error}"]
    if limit > monitor.timeout:
        complaints.append(
            f".timeout {rule.timeout} is above pluginConfig.timeout {monitor.timeout:g}s: "
            "raise that one"
        )
    return complaints
