"""Processes from /proc. Signals go through a pidfd of the kernel, so a reused PID is never hit."""

import asyncio
import os
import re
import signal
from pathlib import Path

from agent.host import HostError
from agent.host.files import HostRoot
from agent.host.ports import Process

SIGNALS = {"TERM": signal.SIGTERM, "KILL": signal.SIGKILL}
_UNIT = re.compile(r"/([A-Za-z0-9:_.@\\-]+\.(?:service|scope))(?=/|$)")


class ProcProcesses:
    """Implements agent.host.ports.Processes.

    files: of the host; the agent is in the host's PID namespace
    """

    def __init__(self, files: HostRoot) -> None:
        self._proc = files.path("/proc")

    async def find(self, pid: int) -> Process | None:
        return self._read(pid)

    async def signal(self, process: Process, name: str) -> bool:
        try:
            handle = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return False
        except OSError as error:
            raise HostError(f"process {process.pid}: {error.strerror}") from error
        try:
            # From here on the handle refers to one process. Its identity is checked now.
            now = self._read(process.pid)
            if now is None or now.start_time != process.start_time:
                return False
            signal.pidfd_send_signal(handle, SIGNALS[name])
        except ProcessLookupError:
            return False
        except OSError as error:
            raise HostError(f"SIG{name} to process {process.pid}: {error.strerror}") from error
        finally:
            os.close(handle)
        return True

    async def runs(self, program: str) -> bool:
        return await asyncio.to_thread(self._runs, program)

    def _runs(self, program: str) -> bool:
        for entry in os.listdir(self._proc):
            if entry.isdecimal():
                try:
                    comm = (self._proc / entry / "comm").read_text().strip()
                except OSError:
                    continue  # the process has ended
                if comm == program[:15]:  # the kernel truncates the name
                    return True
        return False

    def _read(self, pid: int) -> Process | None:
        folder = self._proc / str(pid)
        try:
            stat = (folder / "stat").read_text(errors="replace")
            cgroup = (folder / "cgroup").read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        except OSError as error:
            raise HostError(f"process {pid}: {error.strerror}") from error
        fields = stat[stat.rindex(")") + 2 :].split()  # a name may contain spaces and brackets
        return Process(
            pid=pid,
            start_time=int(fields[19]),
            exe=_link(folder / "exe"),
            unit=unit_of(cgroup),
            state=fields[0],
        )


def unit_of(cgroup: str) -> str:
    """Return the unit in the text of /proc/PID/cgroup; of several in one path, the innermost."""
    for line in cgroup.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" or controllers == "name=systemd":
            units = _UNIT.findall(path)
            if units:
                return str(units[-1])
    return ""


def _link(path: Path) -> str:
    """Return the link's target; "" for a kernel thread, and if reading is not permitted."""
    try:
        return os.readlink(path)
    except OSError:
        return ""
