"""A redis-server of a test's own, with levers: killed, frozen, restarted, wiped, filled.

    with RedisServer(folder) as server:
        Redis(port=server.port)

It listens on loopback at a free port; nothing is left after `with`.
"""

import gc
import socket
import warnings
from collections.abc import Sequence
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from types import TracebackType
from typing import Any, Self

import redis
from support.components import require
from support.daemons import Daemon, free_port

READY_SECONDS = 60.0


class RedisServer:
    """`options` are words of the command line, such as `--maxmemory 10mb`."""

    def __init__(self, folder: Path, *options: str, name: str = "redis") -> None:
        require("redis-server")
        self.folder, self.name, self.port = folder / name, name, free_port()
        self.folder.mkdir()
        self._options = options
        self._daemon = self._made()

    def _made(self) -> Daemon:
        words: Sequence[str] = (
            *("redis-server", "--bind", "127.0.0.1", "--port", str(self.port)),
            *("--dir", str(self.folder), "--save", "", "--appendonly", "yes"),
            *self._options,
        )
        return Daemon(self.name, words, self.folder / "log")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._daemon.pid

    @property
    def daemon(self) -> Daemon:
        """To be struck with others."""
        return self._daemon

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        with warnings.catch_warnings():
            # redis-py leaves sockets that the server's death cut to the collector.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    def start(self) -> None:
        """On the same port, with what the append-only file kept."""
        self._daemon.start()
        self._daemon.wait_until(self._ready, READY_SECONDS)

    def _ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 0.5):
                return bool(self.do("PING"))
        except (OSError, redis.RedisError):
            return False

    def stop(self) -> None:
        self._daemon.stop()

    def kill(self) -> None:
        self._daemon.kill()

    def freeze(self) -> None:
        self._daemon.send(SIGSTOP)

    def thaw(self) -> None:
        self._daemon.send(SIGCONT)

    def do(self, *command: str) -> Any:
        """One command, by blocking I/O."""
        client = redis.Redis(port=self.port, socket_timeout=2, decode_responses=True)
        try:
            return client.execute_command(*command)  # type: ignore[no-untyped-call]
        finally:
            client.close()
