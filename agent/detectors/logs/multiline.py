"""Patterns that reach over several lines, matched as node-problem-detector does.

The last lines are joined by line breaks; a buffer that is not full yet begins with empty lines. A
pattern must match to the very end, and the lines that it touches are the message.
"""

from agent.detectors.logs.line import Line
from agent.detectors.logs.program import Monitor


def spanning_matches(
    monitor: Monitor, kept: tuple[Line, ...]
) -> list[tuple[int, tuple[Line, ...]]]:
    texts = [""] * (monitor.lines - len(kept)) + [one.text for one in kept]
    joined = "\n".join(texts)
    found = []
    for place in monitor.spanning:
        match = monitor.rules[place].regexp.search(joined)
        if match:
            found.append((place, _touched(kept, len(joined) - match.start() - 1)))
    return found


def _touched(kept: tuple[Line, ...], reach: int) -> tuple[Line, ...]:
    """The last lines, so many that a match that begins `reach` before the end lies in them."""
    total = 0
    for back in range(1, len(kept) + 1):
        total += len(kept[-back].text) + 1
        if total > reach:
            return kept[-back:]
    return kept
