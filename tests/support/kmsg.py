"""A pipe in the form of /dev/kmsg.

Bound over a host's /dev/kmsg it is what its journald reads as the kernel's: what is written there
is what the kernel (facility 0) or a tenant who reaches the device (any other) would have written.
"""

import os
import time
from pathlib import Path


class Kmsg:
    """Held open, so that it never ends."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._sequence = 0

    def write(self, text: str, *, facility: int = 0) -> None:
        self._sequence += 1
        now = int(time.monotonic() * 1e6)
        record = f"{facility << 3 | 3},{self._sequence},{now},-;{text}\n"
        os.write(self._fd, record.encode())

    def close(self) -> None:
        os.close(self._fd)
