"""The `kubenode` command as people run it: a process with flags, killed and started at will."""

import sys
from collections.abc import Sequence
from pathlib import Path

from support.daemons import Daemon

KUBENODE = Path(sys.executable).with_name("kubenode")


class Program:
    """`kubenode ARGUMENTS`, with its log in `folder`; `kill` is SIGKILL, `stop` a polite end.

    command  another `kubenode` than that of this environment
    """

    def __init__(
        self, name: str, arguments: Sequence[str], folder: Path, command: Path = KUBENODE
    ) -> None:
        self._daemon = Daemon(name, [command, *arguments], folder / f"{name}.log")
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
