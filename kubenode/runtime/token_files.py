"""Bearer tokens in files, one per line, read again when they change."""

import hmac
from collections.abc import Iterator, Sequence
from pathlib import Path

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.reviews import Unverified

READ_EVERY = 2.0
"""Seconds until a changed token file is noticed."""
SHORTEST_TOKEN, LONGEST_TOKEN = 16, 4096


class TokenFiles:
    """Names the files that contain a token."""

    def __init__(self, files: Sequence[Path], clock: Clock) -> None:
        self._files, self._clock = files, clock
        self._tokens: Sequence[tuple[str, bytes]] = ()
        self._read_at = float("-inf")

    def names_of(self, token: str) -> list[str]:
        """Return the names of the files that contain the token. Raises Unverified.

        It compares with every token, so that the time does not depend on which one matches.
        """
        if len(token) > LONGEST_TOKEN:
            return []
        shown = token.encode(errors="replace")
        return [name for name, known in self._all() if hmac.compare_digest(shown, known)]

    def _all(self) -> Iterator[tuple[str, bytes]]:
        now = self._clock.monotonic()
        if now - self._read_at >= READ_EVERY:
            self._tokens = read_tokens(self._files)
            self._read_at = now
        return iter(self._tokens)


def read_tokens(files: Sequence[Path]) -> Sequence[tuple[str, bytes]]:
    """Return file name and token of every line. Raises Unverified."""
    entries = []
    for path in files:
        try:
            lines = path.read_text().splitlines()
        except (OSError, ValueError) as error:
            raise Unverified(f"token file {path} cannot be read: {error}") from None
        for line in lines:
            # A short token could be guessed, and an empty one matches missing credentials.
            if len(token := line.strip()) >= SHORTEST_TOKEN:
                entries.append((path.name, token.encode()))
    return entries
