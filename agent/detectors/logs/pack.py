"""Packs: rules and conditions as data, in one TOML file per detector.

    detector = "kernel-monitor"
    origins = ["kernel"]

    [[condition]]
    type = "ReadonlyFilesystem"
    reason = "FilesystemIsNotReadOnly"
    message = "Filesystem is not read-only"
    check = "filesystem-writable"
    source = "..."

    [[rule]]
    reason = "FilesystemIsReadOnly"
    condition = "ReadonlyFilesystem"
    pattern = '^EXT4-fs \\((?P<key>[^)]+)\\): Remounting filesystem read-only'
    source = "where this line is documented"
    matches = ["EXT4-fs (sda1): Remounting filesystem read-only"]
    near_misses = ["EXT4-fs (sda1): mounted filesystem"]

A rule with `fallback = true` matches the beginning of a report. A line that begins so and matches
no other rule of its pack is truncated or of an undescribed form, and is reported as such.

A pattern may match anywhere in a line unless it is anchored. The patterns for the kernel are
anchored, because its lines contain names that tenants choose.
"""

from collections.abc import Collection
from importlib import resources
from pathlib import Path

import msgspec

from agent.detectors import EventSeverity
from agent.detectors.logs.program import (
    Clear,
    LazyPattern,
    LogCondition,
    Monitor,
    PatternError,
    Program,
    Rule,
    Selector,
    compile_pattern,
    join,
    monitor,
)
from kubenode.runtime.duration import seconds


class ConfigError(ValueError):
    """The pack is invalid; file, field, value and remedy in one line."""


class PackRule(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    pattern: str
    source: str
    reason: str = ""
    condition: str = ""
    severity: str = "Warning"
    count: int = 1
    within: str = ""
    clears: bool = False
    unless: str = ""
    fallback: bool = False
    matches: list[str] = []
    near_misses: list[str] = []


class PackCondition(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    type: str
    reason: str
    message: str
    source: str
    quiet: str = ""
    check: str = ""
    every: str = "30s"
    boot: bool = True


class Pack(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A pack. origins: as in Line.origin; exes: base names, any if empty; any_user: not only
    root.
    """

    detector: str
    origins: list[str]
    condition: list[PackCondition] = []
    rule: list[PackRule] = []
    exes: list[str] = []
    any_user: bool = False


Part = tuple[Monitor, list[LogCondition]]


def shipped() -> list[tuple[str, str]]:
    """Return (name, text) of the packs of this package, ordered by name."""
    folder = resources.files("agent.detectors.logs") / "packs"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return [(f.name, f.read_text(encoding="utf-8")) for f in files if f.name.endswith(".toml")]


def read_pack(name: str, text: str) -> Pack:
    """Parse a pack. Raises ConfigError."""
    try:
        return msgspec.toml.decode(text, type=Pack)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{name}: {error}; see docs/detectors-logs.md for its form") from error


def load_pack(path: Path) -> Pack:
    """Read a pack of the site. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    return read_pack(str(path), text)


def build_pack(name: str, pack: Pack, *, tested: bool = False) -> Part:
    """Build the monitor and conditions of a pack. Raises ConfigError.

    tested: whether a test compiles the patterns; they are then compiled here at the first lines
    """
    conditions = [_condition(name, pack, entry) for entry in pack.condition]
    known = {entry.type for entry in conditions}
    rules = []
    for number, entry in enumerate(pack.rule):
        where = f"{name}: rule[{number}]"
        if entry.condition and entry.condition not in known:
            raise ConfigError(f"{where}.condition {entry.condition!r}: add a [[condition]] of it")
        if not (entry.reason or entry.clears):
            raise ConfigError(f"{where}.reason '': name the reason in one word")
        if entry.severity not in tuple(EventSeverity):
            raise ConfigError(f"{where}.severity {entry.severity!r}: give Warning or Normal")
        rules.append(_rule(where, f"{pack.detector}/{name}/{number}", entry, tested=tested))
    chosen = Selector(
        origins=frozenset(pack.origins),
        uid=None if pack.any_user else 0,
        exes=frozenset(pack.exes),
    )
    if not pack.origins:
        raise ConfigError(f"{name}: origins []: say whose lines count, such as kernel")
    try:
        return monitor(pack.detector, chosen, rules, tested=tested), conditions
    except PatternError as error:
        raise ConfigError(f"{name}: {error}") from error


def without(pack: Pack, taken: Collection[str]) -> Pack:
    """Return the pack without conditions that others own, and without their rules."""
    return msgspec.structs.replace(
        pack,
        condition=[entry for entry in pack.condition if entry.type not in taken],
        rule=[entry for entry in pack.rule if entry.condition not in taken],
    )


def _condition(name: str, pack: Pack, entry: PackCondition) -> LogCondition:
    where = f"{name}: condition {entry.type}"
    clear = Clear(
        quiet=_seconds(f"{where}.quiet", entry.quiet),
        check=entry.check,
        every=_seconds(f"{where}.every", entry.every),
        boot=entry.boot,
    )
    if clear.check and clear.every < 1.0:
        raise ConfigError(f"{where}.every {entry.every!r}: give at least 1s")
    return LogCondition(entry.type, pack.detector, entry.reason, entry.message, clear)


def _rule(where: str, name: str, entry: PackRule, *, tested: bool) -> Rule:
    within = _seconds(f"{where}.within", entry.within)
    if (entry.count > 1) != bool(within):
        raise ConfigError(f"{where}.count {entry.count}: count and within go together")
    keyed = "(?P<key>" in entry.pattern

    def regexp(field: str, pattern: str) -> object:
        return LazyPattern(pattern) if tested else _regexp(f"{where}.{field}", pattern)

    return Rule(
        name=name,
        pattern=entry.pattern,
        reason=entry.reason,
        condition=entry.condition,
        severity=EventSeverity(entry.severity),
        count=entry.count,
        within=within,
        clears=entry.clears,
        fallback=entry.fallback,
        unless=regexp("unless", entry.unless) if entry.unless else None,
        keyed=keyed,
        regexp=regexp("pattern", entry.pattern),
    )


def _regexp(where: str, pattern: str) -> object:
    try:
        return compile_pattern(pattern)
    except PatternError as error:
        raise ConfigError(f"{where} {pattern!r}: {error}; write it in RE2's syntax") from error


def _seconds(where: str, text: str) -> float:
    if not text:
        return 0.0
    try:
        return seconds(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error


def our_program() -> Program:
    """Return the program of this package's packs only."""
    parts = [build_pack(name, read_pack(name, text), tested=True) for name, text in shipped()]
    return join(parts)
