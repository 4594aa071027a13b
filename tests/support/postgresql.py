"""A PostgreSQL server of its own, in a temporary folder on a free port, as an unprivileged user."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest
from support.daemons import Daemon, free_port
from support.waiting import until

USER = "postgres"
PATIENCE_SECONDS = 120.0


def binaries() -> Path:
    """Return the folder of the newest server. Skips without one, or fails in CI."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: float(p.parent.name))
    if not folders:
        reason = "no PostgreSQL server: apt-get install postgresql"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folders[-1]


class PostgresqlServer:
    """A server that `start` and `kill` may repeat. `url` is that of an empty database."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self._bin = folder, free_port(), binaries()
        self._as = [
            "setpriv",
            f"--reuid={USER}",
            f"--regid={USER}",
            "--init-groups",
            "--pdeathsig=KILL",
        ]
        if os.geteuid() != 0:
            self._as = []
        data = folder / "data"
        self._initialise(data)
        place = ("-D", str(data), "-p", str(self.port), "-k", str(folder))
        words = [*self._as, str(self._bin / "postgres"), *place, "-c", "listen_addresses=127.0.0.1"]
        self._daemon = Daemon("postgres", words, folder / "server.log")

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, again if backends of a killed server still hold its shared memory."""
        self._daemon.start()
        until(self._answers, "PostgreSQL answers", PATIENCE_SECONDS, self._daemon.tail)

    def kill(self) -> None:
        """Kill the server, and wait for its backends, which end once they notice."""
        backends = [Path("/proc", pid) for pid in self._backends()]
        self._daemon.kill()
        until(lambda: not any(map(Path.exists, backends)), "all backends end", PATIENCE_SECONDS)

    def _answers(self) -> bool:
        """Return whether the server answers. A server that has ended is started again."""
        ready = [str(self._bin / "pg_isready"), "-h", "127.0.0.1", "-p", str(self.port)]
        if subprocess.run(ready, capture_output=True).returncode == 0:
            return True
        if self._daemon.process is not None and self._daemon.process.poll() is not None:
            self._daemon.start()
        return False

    def _backends(self) -> list[str]:
        process = self._daemon.process
        if process is None or process.poll() is not None:
            return []
        return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()

    def _initialise(self, data: Path) -> None:
        if self._as:
            os.chown(self.folder, pwd.getpwnam(USER).pw_uid, -1)
        flags = ["-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync"]
        command = [*self._as, str(self._bin / "initdb"), "-D", str(data), *flags]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder)


@contextmanager
def postgresql_server() -> Iterator[PostgresqlServer]:
    """Run a server. Its folder is outside of pytest's, which other users cannot enter."""
    folder = Path(mkdtemp(prefix="kubenode-postgresql-"))
    try:
        server = PostgresqlServer(folder)
        server.start()
        try:
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
