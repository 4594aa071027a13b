"""Patterns that reach over several lines, matched as node-problem-detector does.

The last lines are joined by line breaks; a buffer that is not full yet begins with empty lines. A
pattern must match to the very end, and the lines that it touches are the message.
"""

from agent.detectors.logs.line import Line
from agent.detectors.logs.program import Monitor


def spanning_matches(
    monitor: Monitor, lines: tuple[Line, ...]
) -> list[tuple[int, tuple[Line, ...]]]:
    texts = [""] * (monitor.lines - len(lines)) + [line.text for line in lines]
    joined = "\n".join(texts)
    matches = []
    for place in monitor.spanning:
        match = monitor.rules[place].regexp.search(joined)
        if match:
            matches.append((place, _touched(lines, len(joined) - match.start() - 1)))
    return matches


def _touched(lines: tuple[Line, ...], reach: int) -> tuple[Line, ...]:
    """The last lines, so many that a match that begins `reach` before the end lies in them."""
    total = 0
    for back in range(1, len(lines) + 1):
        total += len(lines[-back].text) + 1
        if total > reach:
            return lines[-back:]
    return lines
