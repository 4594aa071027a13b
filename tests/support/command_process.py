"""`kubenode` in a fork of a process that has loaded it (command_forks.py), and that process."""

import atexit
import json
import os
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

COMMAND = str(Path(sys.executable).parent / "kubenode")
FORKS = Path(__file__).with_name("command_forks.py")
NUMBER = struct.Struct("i")
"""The server answers with the process ID, then with the exit code."""


def environment(**more: str) -> dict[str, str]:
    """Ours without what would name a cluster, and with a home that names none."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "KUBENODE_"))}
    return {**kept, "HOME": os.devnull, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200", **more}


class CommandProcess:
    """A process `kubenode ARGUMENTS` with the methods of `subprocess.Popen` that tests use.

    It has its own process ID, session, environment and outputs, and is killed when this process
    ends. stdout and stderr are pipes if no files are given.
    """

    stdin = None

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        files: tuple[IO[bytes], IO[bytes]] | None = None,
    ) -> None:
        self.args = [COMMAND, *arguments]
        self.returncode: int | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        self._texts: dict[int, bytes] = {}
        request = {"arguments": [*arguments], "environment": {**environment}, "folder": os.getcwd()}
        self._line = _connect()
        if files is not None:
            self._request(request, files[0].fileno(), files[1].fileno())
        else:
            self._request_with_pipes(request)
        (self.pid,) = NUMBER.unpack(self._line.recv(NUMBER.size, socket.MSG_WAITALL))

    def _request(self, request: Mapping[str, object], out: int, err: int) -> None:
        socket.send_fds(self._line, [f"{json.dumps(request)}\n".encode()], [out, err])

    def _request_with_pipes(self, request: Mapping[str, object]) -> None:
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        self._request(request, out_end, err_end)
        os.close(out_end)
        os.close(err_end)
        self.stdout, self.stderr = os.fdopen(out, errors="replace"), os.fdopen(err)

    def poll(self) -> int | None:
        """Return the exit code, minus the number of a signal that ended it; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            ready, _, _ = select.select([self._line], [], [], timeout)
            if not ready:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            raw = self._line.recv(NUMBER.size, socket.MSG_WAITALL)
            self.returncode = NUMBER.unpack(raw)[0] if raw else -signal.SIGKILL
            self._line.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read both pipes to their ends and wait. Raises subprocess.TimeoutExpired."""
        assert self.stdout is not None and self.stderr is not None, "the outputs are files"
        end = None if timeout is None else time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for pipe in (self.stdout, self.stderr):
                selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(None if end is None else max(0, end - time.monotonic()))
                if not ready:
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
                for key, _ in ready:
                    raw = os.read(key.fd, 1 << 16)
                    self._texts[key.fd] = self._texts.get(key.fd, b"") + raw
                    if not raw:
                        selector.unregister(key.fileobj)
        self.wait(None if end is None else max(0, end - time.monotonic()))
        out, err = (self._texts[pipe.fileno()] for pipe in (self.stdout, self.stderr))
        return out.decode(errors="replace"), err.decode(errors="replace")

    def close(self) -> None:
        """Close the pipes, and kill the process if it still runs."""
        if self.poll() is None:
            self.kill()
            self.wait()
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()


_lock = threading.Lock()
_started: list[Path] = []


def _connect() -> socket.socket:
    """Connect to the process that forks the command. It ends with this process."""
    with _lock:
        if not _started:
            _started.append(_start_forks())
    line = socket.socket(socket.AF_UNIX)
    line.connect(str(_started[0]))
    return line


def _start_forks() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="kubenode-command-"))
    path = folder / "socket"
    process = subprocess.Popen(
        [sys.executable, FORKS, path],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None

    def end() -> None:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        process.wait()

    atexit.register(end)
    assert process.stdout.readline() == b"loaded\n", f"{FORKS.name} does not start"
    return path
