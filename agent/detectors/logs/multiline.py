"""Matches patterns over several lines like node-problem-detector.

The last lines are joined by line breaks. A buffer that is not full begins with empty lines. A
pattern must match up to the end, and the message is the lines that it touches.
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
    """Return the last lines that contain a match which begins `reach` characters before the end."""
    total = 0
    for back in range(1, len(lines) + 1):
        total += len(lines[-back].text) + 1
        if total > reach:
            return lines[-back:]
    return lines
