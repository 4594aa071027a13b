"""Maps a program to the sources that it needs, and conditions to the sources they depend on."""

from collections.abc import Iterable

from agent.detectors.logs.line import KERNEL, MANAGER
from agent.detectors.logs.program import Monitor, Program, Selector

KMSG, JOURNAL = "kmsg", "journal"
READER = "#"
"""Separates a file's path from the number of a further monitor of the same file."""


def sources_of(selector: Selector, kernel: str) -> set[str]:
    """Return the names of the sources of its lines. kernel: name of the source of kernel lines."""
    if not selector.origins:
        return {JOURNAL}
    return {_source_of(origin, kernel) for origin in selector.origins}


def _source_of(origin: str, kernel: str) -> str:
    if origin == KERNEL:
        return kernel
    return f"file:{origin.partition(READER)[0]}" if origin.startswith("/") else JOURNAL


def hang_on(program: Program, kernel: str) -> dict[str, set[str]]:
    """Return by condition type the sources to read to their end before it counts as healthy."""
    sources: dict[str, set[str]] = {name: set() for name in program.conditions}
    for monitor in program.monitors:
        for rule in monitor.rules:
            if rule.condition:
                sources[rule.condition] |= sources_of(monitor.selector, kernel)
    return sources


def matches(monitors: Iterable[Monitor], kernel: str) -> list[list[str]]:
    """Return journalctl's matches for the monitors, without duplicates."""
    selected: list[list[str]] = []
    for monitor in monitors:
        if JOURNAL not in sources_of(monitor.selector, kernel):
            continue
        selector = monitor.selector
        origins = sorted(selector.origins)
        groups = [[_match(origin)] for origin in origins if _source_of(origin, kernel) == JOURNAL]
        if selector.identifier:
            groups = [[f"SYSLOG_IDENTIFIER={selector.identifier}"]]
        selected += [group for group in groups if group not in selected]
    return selected


def _match(origin: str) -> str:
    if origin == KERNEL:
        return "_TRANSPORT=kernel"
    return "_PID=1" if origin == MANAGER else f"_SYSTEMD_UNIT={origin}"
