"""Which sources a program needs, and which conditions hang on each."""

from collections.abc import Iterable

from agent.detectors.logs.line import KERNEL, MANAGER
from agent.detectors.logs.program import Monitor, Program, Selector

KMSG, JOURNAL = "kmsg", "journal"
READER = "#"
"""Between the path of a file and the number of one of several who read it in their own way."""


def sources_of(selector: Selector, kernel: str) -> set[str]:
    """Names of the sources that its lines come from; `kernel` is the one of the kernel's."""
    if not selector.origins:
        return {JOURNAL}
    return {_source_of(origin, kernel) for origin in selector.origins}


def _source_of(origin: str, kernel: str) -> str:
    if origin == KERNEL:
        return kernel
    return f"file:{origin.partition(READER)[0]}" if origin.startswith("/") else JOURNAL


def hang_on(program: Program, kernel: str) -> dict[str, set[str]]:
    """Condition type -> the sources that must have been read before it is said to be well."""
    sources: dict[str, set[str]] = {name: set() for name in program.conditions}
    for monitor in program.monitors:
        for rule in monitor.rules:
            if rule.condition:
                sources[rule.condition] |= sources_of(monitor.selector, kernel)
    return sources


def matches(monitors: Iterable[Monitor], kernel: str) -> list[list[str]]:
    """What journalctl must let through, without repetition."""
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
