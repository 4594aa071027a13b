"""The program of the log detector: monitors with rules, and the conditions that they own.

Patterns are RE2, the syntax of node-problem-detector, whose time is linear in the line's length.
All patterns of a monitor are matched at once (RE2::Set). A single rule is evaluated only for a line
that its pattern matches.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import re2

from agent.detectors import EventSeverity
from agent.detectors.logs.line import KERNEL, MANAGER, Line

PATTERN_BYTES = 8 << 20
"""Memory for the compiled patterns of one monitor."""

LONG_AGO = datetime.min.replace(tzinfo=UTC)


class PatternError(ValueError):
    """RE2 does not accept a pattern."""


@dataclass(frozen=True, slots=True)
class Clear:
    """How a condition becomes False again after its fault. Times in seconds; 0: never.

    quiet: time without such a line; only valid if a lasting fault repeats its line
    check: name in recovery_checks.CHECKS, run every `every` seconds while the fault lasts
    boot: whether a boot ends the fault
    """

    quiet: float = 0.0
    check: str = ""
    every: float = 30.0
    boot: bool = True


@dataclass(frozen=True, slots=True)
class LogCondition:
    """A condition that log lines set. reason, message: of the healthy state."""

    type: str
    detector: str
    reason: str
    message: str
    clear: Clear = Clear()


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern and its meaning. Without `condition` a match is an Event.

    count, within: number of matches within seconds that make the fault; 1, 0.0: each does
    clears: a match ends the condition's fault (of the same key, if the pattern has a key)
    spans: the pattern may span several lines
    unless: a line that matches this too is no match
    fallback: matches only a line that no other rule of its monitor matches
    keyed: the pattern has a group `key`, such as a device or a task
    name: unique in the program, for counts
    """

    name: str
    pattern: str
    reason: str = ""
    condition: str = ""
    severity: EventSeverity = EventSeverity.WARNING
    count: int = 1
    within: float = 0.0
    clears: bool = False
    spans: bool = False
    fallback: bool = False
    unless: Any = field(default=None, compare=False, repr=False)
    keyed: bool = False
    regexp: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Selector:
    """Selects the lines that a monitor reads. All criteria must match.

    origins: accepted writers; empty: any service of the system, as journald attests it
    identifier: name that the writer must use; "": any
    uid: of the writing process; None: any
    exes: base names of the writing program; empty: any
    """

    origins: frozenset[str] = frozenset()
    identifier: str = ""
    uid: int | None = None
    exes: frozenset[str] = frozenset()

    def accepts(self, line: Line) -> bool:
        if self.origins:
            if line.origin not in self.origins:
                return False
        elif not (line.origin == MANAGER or line.origin.endswith(".service")):
            return False
        if self.identifier and line.identifier != self.identifier:
            return False
        if line.origin == KERNEL:
            return True
        if self.uid is not None and line.uid != self.uid:
            return False
        return not self.exes or line.exe.rpartition("/")[2] in self.exes


class LazyPattern:
    """A valid pattern that is compiled when the first line is searched for it."""

    __slots__ = ("_compiled", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._compiled: Any = None

    def search(self, text: str) -> Any:
        """Search like a compiled pattern of re2."""
        if self._compiled is None:
            self._compiled = compile_pattern(self._text)
        return self._compiled.search(text)


class PatternSet:
    """All patterns of a monitor as one RE2::Set, which `compile` or the first line compiles.

    A set costs ten times as much memory as its patterns alone, and on many hosts some monitors get
    no lines. A set that failed to compile must not be used for matching.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(patterns)
        self._set: Any = None

    def compile(self) -> None:
        """Compile the set. Raises re2.error, also if the patterns exceed PATTERN_BYTES together."""
        if self._set is None:
            made = re2.Set.SearchSet(options())
            for pattern in self._patterns:
                made.Add(pattern)
            made.Compile()
            self._set = made

    def match(self, text: bytes) -> Sequence[int]:
        """Return the indices of the patterns that match the text, in any order."""
        self.compile()
        matches: Sequence[int] = self._set.Match(text)
        return matches


@dataclass(frozen=True, slots=True)
class Monitor:
    """Rules for the lines of one kind of writer.

    lines: number of lines that are kept for patterns that span lines
    separate: a text of several lines is matched line by line
    since: earlier lines are ignored
    events_since: earlier lines are no Events, but still change conditions
    """

    detector: str
    selector: Selector
    rules: tuple[Rule, ...]
    lines: int = 1
    separate: bool = True
    since: datetime = LONG_AGO
    events_since: datetime = LONG_AGO
    chosen: PatternSet | None = field(default=None, compare=False, repr=False)
    singles: tuple[int, ...] = ()
    spanning: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """A program. keyers: condition type to patterns with a key, for rules without one."""

    monitors: tuple[Monitor, ...]
    conditions: dict[str, LogCondition]
    keyers: dict[str, tuple[Any, ...]] = field(default_factory=dict)


def options() -> Any:
    chosen = re2.Options()
    chosen.log_errors = False
    chosen.max_mem = PATTERN_BYTES
    return chosen


def compile_pattern(pattern: str) -> Any:
    """Compile a pattern. Raises PatternError with RE2's error."""
    try:
        return re2.compile(pattern, options())
    except (re2.error, UnicodeEncodeError) as error:
        detail = error.args[0] if error.args else ""
        message = detail.decode(errors="replace") if isinstance(detail, bytes) else str(error)
        raise PatternError(message) from error


def monitor(
    detector: str,
    selector: Selector,
    rules: Iterable[Rule],
    *,
    lines: int = 1,
    separate: bool = True,
    tested: bool = False,
) -> Monitor:
    """Build a monitor. Raises PatternError.

    tested: the patterns are known to compile together, so that the first line may compile them
    """
    made = tuple(rules)
    singles = tuple(n for n, rule in enumerate(made) if not rule.spans)
    chosen = None
    if singles:
        try:
            chosen = PatternSet(made[place].pattern for place in singles)
            if not tested:
                chosen.compile()
        except re2.error as error:
            raise PatternError(f"the patterns of {detector} together: {error}") from error
    spanning = tuple(n for n, rule in enumerate(made) if rule.spans)
    return Monitor(
        detector,
        selector,
        made,
        lines,
        separate,
        chosen=chosen,
        singles=singles,
        spanning=spanning,
    )


def join(parts: Sequence[tuple[Monitor, Sequence[LogCondition]]]) -> Program:
    """Join monitors to one program.

    The first part that names a condition owns it. A later part may define how it clears, if the
    first one does not.
    """
    conditions: dict[str, LogCondition] = {}
    for _, owned in parts:
        for condition in owned:
            first = conditions.setdefault(condition.type, condition)
            if first.clear == Clear() != condition.clear:
                conditions[condition.type] = LogCondition(
                    first.type, first.detector, first.reason, first.message, condition.clear
                )
    keyers: dict[str, tuple[Any, ...]] = {}
    for part, _ in parts:
        for rule in part.rules:
            if rule.condition and rule.keyed and not rule.clears:
                keyers[rule.condition] = (*keyers.get(rule.condition, ()), rule.regexp)
    return Program(tuple(part for part, _ in parts), conditions, keyers)


_PLAIN_CLASS = re.compile(r"\[(?:[A-Za-z0-9 _.,:;/@#%+*=-]|\\[Swd])+\]")
_PLAIN_ESCAPE = re.compile(r"\\[SwdbBz.()\[\]{}*+?|$^/\-\"':=,#<>]|\\\\")
_PLAIN_GROUP = re.compile(r"\((?:\?:|\?P<\w+>|\?i\)|\?i:|(?!\?))")


def may_span(pattern: str) -> bool:
    """Return whether a pattern may match a line break or the start of a text.

    In doubt it returns True. Such a pattern is matched against the buffered lines, others against
    the last line only, with the same result.
    """
    rest = _PLAIN_ESCAPE.sub("", _PLAIN_CLASS.sub("", pattern))
    rest = _PLAIN_GROUP.sub("", rest)
    return bool(re.search(r"[\\\[\n^]|\(\?", rest))
