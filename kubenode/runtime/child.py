"""A child process with a private socket, for work that may crash or hang.

The child has a process group of its own: a signal to ours, such as Ctrl-C, does not reach it. It
gets the variables that an interpreter needs, and none that may hold a credential.
"""

import os
import socket
import subprocess
import sys
import time

_VARIABLES = frozenset({"PATH", "HOME", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV"})
_PREFIXES = ("PYTHON", "LC_", "LD_")


def child_environment() -> dict[str, str]:
    """Return the variables of our environment that a child gets."""
    ours = {k: v for k, v in os.environ.items() if k in _VARIABLES or k.startswith(_PREFIXES)}
    return {**ours, "PYTHONDONTWRITEBYTECODE": "1"}


class ChildProcess:
    """A process `python -m MODULE FD`. Methods raise OSErrors, such as TimeoutError."""

    def __init__(self, module: str) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", module, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    process_group=0,
                    env=child_environment(),
                )
        except BaseException:
            ours.close()
            raise
        self._socket = ours

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, data: bytes, seconds: float) -> None:
        self._socket.settimeout(seconds)
        self._socket.sendall(data)

    def receive(self, length: int, seconds: float) -> bytes:
        """Read exactly `length` bytes within `seconds`."""
        deadline = time.monotonic() + seconds
        parts = bytearray()
        while len(parts) < length:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError("the child did not answer in time")
            self._socket.settimeout(remaining)
            part = self._socket.recv(min(length - len(parts), 1 << 20))
            if not part:
                raise ConnectionResetError(f"exit status {self._process.poll()}")
            parts += part
        return bytes(parts)

    def kill(self) -> None:
        """Kill the process and wait for its end."""
        self._socket.close()
        self._process.kill()
        self._process.wait()
