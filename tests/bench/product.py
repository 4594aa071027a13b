"""A program of the product that a benchmark runs and looks into: turns, metrics, processes."""

import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.first_heal import is_ready, program
from bench.processes import Usage, most_memory, usage
from bench.turns import program as timed
from bench.turns import turns
from support.daemons import free_port

REQUESTS = "kubenode_client_requests_total"
RELISTS = "kubenode_informer_relists_total"
EVENTS = "kubenode_informer_events_total"
OBJECTS = "kubenode_informer_objects"
LEADING = "kubenode_lease_leading"


class Product:
    """`kubenode ARGUMENTS` while `running()`; FOLDER holds its log and the file of its turns."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self.port, self.log = free_port(), folder / f"{name}.log"
        self._turns = folder / f"{name}.turns"
        self._turns.touch()
        health = ["--health-port", str(self.port)]
        self._command = timed(self._turns, *arguments, *health)
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def running(self, *, at_once: bool = False) -> Iterator[None]:
        """From when it is ready, or with `at_once` from its start, to the end of the block."""
        ready = (lambda: True) if at_once else self.ready
        with program(self._command, ready, self.log) as self._process:
            yield

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def ready(self) -> bool:
        return is_ready(self.port)

    def follows(self, nodes: int) -> bool:
        """Whether it has so many Nodes in its cache, leading or not."""
        self.require_alive()
        try:
            return self.counted(OBJECTS, resource="nodes") >= nodes
        except OSError:
            return False

    def kill(self) -> None:
        """SIGKILL, to this process alone: its children notice by themselves."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def require_alive(self) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise SystemExit(f"kubenode ended:\n{self.log.read_text()[-2000:]}")

    def counted(self, metric: str, **labels: str) -> float:
        """The sum of a metric's values with these labels, by blocking I/O."""
        url = f"http://127.0.0.1:{self.port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        wanted = [f'{name}="{value}"' for name, value in labels.items()]
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in lines
            if line.partition("{")[0] == metric and all(each in line for each in wanted)
        )

    def usage(self) -> Usage:
        return usage(self.pid)

    def spent(self, before: Usage, since: float) -> dict[str, Any]:
        """What it has used since `before`, its memory, and its turns since a monotonic time."""
        now = self.usage()
        return {
            "cpuSeconds": round(now.cpu - before.cpu, 2),
            "rssMB": round(now.rss / 1e6, 1),
            "rssMBMost": round(most_memory(self.pid) / 1e6, 1),
            **turns(self._turns, since),
        }
