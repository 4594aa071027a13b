"""Splits bytes into lines, with bounded memory."""


class Splitter:
    """Takes bytes as they arrive and returns complete lines.

    longest: bytes of a line that are kept; longer lines are cut and counted in `cut`
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._begun = b""
        self._dropping = False
        self.cut = 0

    @property
    def pending(self) -> int:
        """Return the number of bytes of the incomplete line."""
        return len(self._begun)

    def feed(self, data: bytes) -> list[bytes]:
        if not data:
            return []
        first, *rest = data.split(b"\n")
        if not rest:
            self._begin(first)
            return []
        self._begin(first)
        lines = [self._begun, *(self._shortened(line) for line in rest[:-1])]
        self._begun, self._dropping = b"", False
        self._begin(rest[-1])
        return [line for line in lines if line]

    def forget(self, *, amid: bool = False) -> None:
        """Drop the incomplete line. amid: the following bytes begin within a line."""
        self._begun, self._dropping = b"", amid

    def _begin(self, more: bytes) -> None:
        if self._dropping:
            return
        self._begun += more
        if len(self._begun) > self._longest:
            self._begun = self._begun[: self._longest]
            self._dropping = True
            self.cut += 1

    def _shortened(self, line: bytes) -> bytes:
        if len(line) <= self._longest:
            return line
        self.cut += 1
        return line[: self._longest]
