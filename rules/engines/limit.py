"""Timeout for the answers of a process whose processor may be throttled.

A fixed timeout would fail for ever on a slow machine: the process is killed, its successor loads
the program on the same processor, and is killed too.
"""

MARGIN = 4.0
"""The next answer may take this many times as long as the last one."""


class TimeLimit:
    """An adaptive timeout. low, high: bounds of `seconds`, which starts with `low`."""

    def __init__(self, low: float, high: float) -> None:
        self._low, self._high = low, high
        self.seconds = low

    def lengthen(self) -> None:
        """Double the timeout after a missing answer."""
        self.seconds = min(2 * self.seconds, self._high)

    def adapt(self, took: float) -> None:
        """Shorten the timeout to MARGIN times `took`, the seconds of an answer, but not below
        `low`.
        """
        self.seconds = max(self._low, min(self.seconds, MARGIN * took))
