"""The `kubenode` command as people run it: a process with flags, killed and started at will."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from support.command_process import CommandProcess
from support.daemons import Daemon

KUBENODE = Path(sys.executable).with_name("kubenode")


class ForkedDaemon(Daemon):
    """`kubenode` in a fork of a process that has loaded it: a start costs no imports."""

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = CommandProcess(self.argv[1:], os.environ, (log, log))


class Program:
    """`kubenode ARGUMENTS`, with its log in `folder`; `kill` is SIGKILL, `stop` a polite end.

    command  an executable to start, for one whose memory or start is measured and for another
             `kubenode` than that of this environment; None starts a fork
    """

    def __init__(
        self, name: str, arguments: Sequence[str], folder: Path, command: Path | None = None
    ) -> None:
        kind = ForkedDaemon if command is None else Daemon
        self._daemon = kind(name, [command or KUBENODE, *arguments], folder / f"{name}.log")
        self.starts = 0

    @property
    def log(self) -> str:
        return self._daemon.log.read_text() if self._daemon.log.exists() else ""

    @property
    def pid(self) -> int:
        return self._daemon.pid

    def start(self) -> None:
        self._daemon.start()
        self.starts += 1

    def kill(self) -> None:
        """An end without warning; returns when the process is gone."""
        self._daemon.kill()

    def stop(self) -> None:
        self._daemon.stop()
