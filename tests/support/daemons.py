"""Servers started for a test session: one process each, ended by its PID and by nothing else."""

import ctypes
import errno
import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGTERM, Signals
from types import TracebackType
from typing import Protocol, Self

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)
_chance = random.Random(os.urandom(8))  # pytest-randomly seeds the one that all share


class StartError(Exception):
    """A server ended or did not become ready; the text has the end of its log."""


def free_port(address: str = "127.0.0.1") -> int:
    """A TCP port that nobody listens on at `address`, and that no connection takes meanwhile.

    What the kernel would choose by itself may be the near end of somebody's connection by the time
    the server listens: the range is left to connections (ip_local_port_range begins at 32768).
    """
    while True:
        port = _chance.randrange(20_000, 30_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
        return port


def _die_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, SIGKILL)


_promised = threading.local()


def outlives_its_servers() -> None:
    """To be said in a thread that ends after all that it starts."""
    _promised.said = True


class RunningProcess(Protocol):
    """What a Daemon needs of a process."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...

    def kill(self) -> None: ...


class Daemon:
    """One server process, started from a thread that lasts because it dies with the thread.

    That is the safety net for a test run that is killed: no server outlives it.
    """

    def __init__(self, name: str, argv: Sequence[str | Path], log: Path) -> None:
        self.name = name
        self.argv = [str(word) for word in argv]
        self.log = log
        self.process: RunningProcess | None = None

    @property
    def pid(self) -> int:
        if self.process is None:
            raise StartError(f"{self.name} is not running")
        return self.process.pid

    def start(self) -> None:
        lasts = threading.current_thread() is threading.main_thread()
        if not lasts and not getattr(_promised, "said", False):
            raise StartError(f"start {self.name} from the main thread: it dies with its thread")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C reaches the test run, which stops us in order
                preexec_fn=_die_with_parent,
            )

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Poll `ready`. Raises StartError when the process ends first or the time is over."""
        end = time.monotonic() + seconds
        while not ready():
            if self.process is None or self.process.poll() is not None:
                raise StartError(f"{self.name} ended while starting:\n{self.tail()}")
            if time.monotonic() > end:
                raise StartError(f"{self.name} is not ready after {seconds:g} s:\n{self.tail()}")
            time.sleep(0.05)

    def tail(self, lines: int = 20) -> str:
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def send(self, number: Signals) -> None:
        """SIGSTOP freezes, SIGCONT thaws; for the end use `stop` or `kill`."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        self._end(SIGKILL, 10)

    def stop(self, grace: float = 10) -> None:
        """SIGTERM, after `grace` seconds SIGKILL; returns when the process is gone."""
        self._end(SIGTERM, grace)

    def _end(self, number: Signals, grace: float) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(number)
        process.send_signal(SIGCONT)  # a frozen process takes no SIGTERM
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Served:
    """A daemon that lives as long as the `with` block, and is ready from its start on.

    `_daemon` is made by who inherits, `_ready` asks it.
    """

    READY_SECONDS = 30.0
    _daemon: Daemon

    def _ready(self) -> bool:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._daemon.start()
        try:
            self._daemon.wait_until(self._ready, self.READY_SECONDS)
        except BaseException:
            self._daemon.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._daemon.stop()
