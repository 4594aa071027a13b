"""Reads node-problem-detector's system-log-monitor configuration unchanged.

A file has plugin (kmsg, journald, filelog), pluginConfig, logPath, lookback, delay, skipList,
bufferSize, source, conditions and rules (temporary or permanent). Patterns must match up to the end
of the buffered lines. Field names are not case-sensitive, and unknown ones are ignored. Source:
kubernetes/node-problem-detector docs and config/ (Apache-2.0).
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agent.detectors import EventSeverity
from agent.detectors.logs import gotime
from agent.detectors.logs.line import KERNEL, LONGEST, Line
from agent.detectors.logs.pack import ConfigError, Part
from agent.detectors.logs.program import (
    LogCondition,
    PatternError,
    Rule,
    Selector,
    compile_pattern,
    may_span,
    monitor,
)
from kubenode.runtime.duration import seconds

KMSG, JOURNALD, FILELOG = "kmsg", "journald", "filelog"
PLUGINS = (KMSG, JOURNALD, FILELOG)
_WORD = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
"""Condition types and reasons that the API server accepts."""
MOST_LINES = 1000
"""Lines of a buffer. node-problem-detector's files use 1 and 10."""


@dataclass(frozen=True, slots=True)
class Translator:
    """Parses a line of a file. The last group of each pattern counts."""

    timestamp: object
    message: object
    parse: gotime.Parser
    skip: tuple[str, ...]

    def translate(self, text: str, origin: str, now: datetime) -> Line | None:
        """Return the line; None if it is skipped or has another format."""
        if any(word in text for word in self.skip):
            return None
        stamp, message = _last(self.timestamp, text), _last(self.message, text)
        if stamp is None or message is None:
            return None
        try:
            at = self.parse(stamp, now)
        except ValueError:
            return None
        return Line(message[:LONGEST], at, origin)


@dataclass(frozen=True, slots=True)
class NpdMonitor:
    """One file. lookback, delay: seconds; translator: None except for a filelog."""

    name: str
    plugin: str
    log_path: str
    lookback: float
    delay: float
    part: Part
    translator: Translator | None = None


def read_npd(name: str, decoded: object) -> NpdMonitor:
    """Parse a file's decoded JSON.

    Raises ConfigError with one line per complaint, each with file, field, value and remedy.
    """
    fields = _Fields(name, "", decoded)
    plugin = fields.text("plugin")
    if plugin not in PLUGINS:
        fields.complain("plugin", plugin, f"one of {', '.join(PLUGINS)}")
    buffer = fields.number("bufferSize", 10) or 10
    if not 0 < buffer <= MOST_LINES:
        fields.complain("bufferSize", buffer, f"give 1 to {MOST_LINES}")
    conditions = [
        _condition(fields.text("source"), entry) for entry in fields.objects("conditions")
    ]
    known = {entry.type for entry in conditions}
    rules = [_rule(name, n, entry, known) for n, entry in enumerate(fields.objects("rules"))]
    lookback, delay = fields.seconds("lookback"), fields.seconds("delay")
    source, path = fields.text("source"), fields.text("logPath")
    if not source:
        fields.complain("source", source, "name the monitor, such as kernel-monitor")
    selector = _selector(plugin, path, fields)
    translator = _translator(fields) if plugin == FILELOG else None
    fields.settle()
    try:
        made = monitor(source, selector, rules, lines=buffer, separate=False)
    except PatternError as error:
        raise ConfigError(f"{name}: rules: {error}") from error
    return NpdMonitor(name, plugin, path, lookback, delay, (made, conditions), translator)


def _selector(plugin: str, path: str, fields: "_Fields") -> Selector:
    if plugin == KMSG:
        return Selector(frozenset([KERNEL]))
    if plugin == FILELOG:
        if not path.startswith("/"):
            fields.complain("logPath", path, "give the full path of the file")
        return Selector(frozenset([path]))
    identifier = fields.of("pluginConfig").text("source")
    if not identifier:
        fields.complain("pluginConfig.source", "", "give the SYSLOG_IDENTIFIER to follow")
    if identifier == KERNEL:
        return Selector(frozenset([KERNEL]))
    return Selector(identifier=identifier)


def _translator(fields: "_Fields") -> Translator | None:
    given = fields.of("pluginConfig")
    stamp = given.pattern("timestamp")
    message = given.pattern("message")
    layout = given.text("timestampFormat")
    skip = tuple(fields.texts("skipList"))
    try:
        parse = gotime.parser(layout)
    except ValueError as error:
        given.complain("timestampFormat", layout, str(error))
        return None
    return Translator(stamp, message, parse, skip)


def _condition(detector: str, fields: "_Fields") -> LogCondition:
    made = LogCondition(
        fields.text("type"), detector, fields.text("reason"), fields.text("message")
    )
    for name, word in (("type", made.type), ("reason", made.reason)):
        if not _WORD.fullmatch(word):
            fields.complain(name, word, "give one word, such as KernelDeadlock")
    return made


def _rule(name: str, number: int, fields: "_Fields", known: Iterable[str]) -> Rule:
    kind, reason, pattern = (fields.text(n) for n in ("type", "reason", "pattern"))
    condition = fields.text("condition")
    if kind not in ("temporary", "permanent"):
        fields.complain("type", kind, "give temporary (an Event) or permanent (a condition)")
    if kind == "permanent" and condition not in known:
        fields.complain("condition", condition, "list it under conditions")
    if not _WORD.fullmatch(reason):
        fields.complain("reason", reason, "give one word, such as DockerHung")
    regexp = fields.pattern("pattern")
    whole = pattern + r"\z"
    return Rule(
        name=f"{name}/{number}",
        pattern=whole,
        reason=reason,
        condition=condition if kind == "permanent" else "",
        severity=EventSeverity.WARNING,
        spans=may_span(pattern),
        regexp=compile_pattern(whole) if regexp is not None else None,
    )


def _last(regexp: Any, text: str) -> str | None:
    """Return the last group of the first match, as node-problem-detector does; None for no
    match.
    """
    match = regexp.search(text) if regexp is not None else None
    if match is None:
        return None
    groups = match.groups()
    return (groups[-1] or "") if groups else str(match.group(0))


class _Fields:
    """One JSON object of a file, and the complaints about the whole file."""

    def __init__(
        self, file: str, where: str, given: object, complaints: list[str] | None = None
    ) -> None:
        self._file, self._where = file, where
        self._complaints: list[str] = [] if complaints is None else complaints
        if not isinstance(given, dict):
            self.complain("", given, "write a JSON object {...}")
            given = {}
        self._given = {str(name).lower(): value for name, value in given.items()}

    def complain(self, name: str, value: object, remedy: str) -> None:
        field = f"{self._where}{name}".strip(".") or "the file"
        shown = repr(value)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        self._complaints.append(f"{self._file}: {field} {shown}: {remedy}")

    def settle(self) -> None:
        if self._complaints:
            raise ConfigError("\n".join(self._complaints))

    def text(self, name: str) -> str:
        value = self._given.get(name.lower())
        if value is None:
            return ""
        if not isinstance(value, str):
            self.complain(name, value, "write a text in quotes")
            return ""
        return value

    def number(self, name: str, default: int) -> int:
        value = self._given.get(name.lower(), default)
        if not isinstance(value, int) or isinstance(value, bool):
            self.complain(name, value, "write a whole number")
            return default
        return value

    def seconds(self, name: str) -> float:
        text = self.text(name)
        if text in ("", "0"):
            return 0.0
        try:
            return seconds(text)
        except ValueError:
            self.complain(name, text, "write a duration like 5m or 1h30m")
            return 0.0

    def pattern(self, name: str) -> object:
        text = self.text(name)
        if not text:
            self.complain(name, text, "give a pattern in the syntax of RE2")
            return None
        try:
            return self._compiled(text)
        except PatternError as error:
            self.complain(name, text, f"{error}; write it in the syntax of RE2")
            return None

    _compiled: Callable[[str], object] = staticmethod(compile_pattern)

    def of(self, name: str) -> "_Fields":
        value = self._given.get(name.lower(), {})
        return _Fields(self._file, f"{self._where}{name}.", value, self._complaints)

    def objects(self, name: str) -> "list[_Fields]":
        value = self._given.get(name.lower()) or []
        if not isinstance(value, list):
            self.complain(name, value, "write a list [...]")
            return []
        return [
            _Fields(self._file, f"{self._where}{name}[{n}].", entry, self._complaints)
            for n, entry in enumerate(value)
        ]

    def texts(self, name: str) -> list[str]:
        value = self._given.get(name.lower()) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.complain(name, value, "write a list of texts")
            return []
        return [str(item) for item in value]
