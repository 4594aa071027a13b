"""How long to wait for an answer of a process whose processor may be throttled.

A fixed limit fails for good on a slow machine: the process is ended, its successor loads its
program on the same processor, and is ended too.
"""

MARGIN = 4.0
"""So many times as long as the last answer took may the next one take."""


class TimeLimit:
    """low, high  bounds of `seconds`; it starts with `low`"""

    def __init__(self, low: float, high: float) -> None:
        self._low, self._high = low, high
        self.seconds = low

    def lengthen(self) -> None:
        """Double it: there was no answer in time."""
        self.seconds = min(2 * self.seconds, self._high)

    def adapt(self, took: float) -> None:
        """Shorten it, down to the low bound, to MARGIN times the seconds that an answer took."""
        self.seconds = max(self._low, min(self.seconds, MARGIN * took))
