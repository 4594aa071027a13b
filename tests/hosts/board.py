"""The board of one disposable host: what keeps its power, as a server's baseboard controller does.

Started by tests/support/hosts.py. It stays outside of the host's cgroups, so it goes on when the
host hangs, and a unix socket takes one word per connection and answers with a line:

    state          on | off | stopping
    on, off        wishes: asking again does no harm; `off` answers once nothing of the host runs
    reset          off by force, and on again after the boot delay; `refused: …` when it is off
    delay SECONDS  between down and up of every later boot that follows a reboot or a reset

systemd-nspawn ends with 133 when the host asks for a reboot. A host that is off has its network
link down: a dead host is silent, while its network namespace would go on to answer with resets.

    board.py SOCKET LINK GROUPS DELAY NSPAWN-ARGUMENT...

GROUPS  a file with one cgroup directory per line, which the host lives in
"""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

AGAIN = 133
PR_SET_PDEATHSIG = 1
OFF_SECONDS = 20.0
_libc = ctypes.CDLL(None)


class Board:
    def __init__(self, link: str, groups: list[Path], delay: float, argv: list[str]) -> None:
        self._link, self._groups, self._delay, self._argv = link, groups, delay, argv
        self._power: asyncio.Task[None] | None = None

    # ---- what is asked

    async def obey(self, line: str) -> str:
        word, _, rest = line.partition(" ")
        match word:
            case "state":
                return self._state()
            case "on":
                self._on(0.0)
            case "off":
                return await self._off()
            case "reset":
                if self._state() == "off":
                    return "refused: it is off"
                if (ended := await self._off()) != "ok":
                    return ended
                self._on(self._delay)
            case "delay":
                self._delay = float(rest)
            case _:
                return f"no such word: {word}"
        return "ok"

    def _state(self) -> str:
        """Off is proof: no process of the host is left, none even on its way out."""
        if self._power is not None and not self._power.done():
            return "on"
        return "stopping" if self._processes() else "off"

    def _on(self, delay: float) -> None:
        if self._power is None or self._power.done():
            self._power = asyncio.ensure_future(self._run(delay))

    async def _off(self) -> str:
        power, self._power = self._power, None
        if power is not None:
            power.cancel()
            await asyncio.wait([power])
        end = asyncio.get_running_loop().time() + OFF_SECONDS
        while pids := self._processes():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._thaw()  # only now: what is frozen dies before it takes another step
            if asyncio.get_running_loop().time() > end:
                return f"still there after {OFF_SECONDS:g} s: {sorted(pids)}"
            await asyncio.sleep(0.02)
        self._plug("down")
        return "ok"

    # ---- the host

    async def _run(self, delay: float) -> None:
        while True:
            await asyncio.sleep(delay)
            self._plug("up")
            os.write(1, b"[board] boot\n")
            host = await asyncio.create_subprocess_exec(
                *("systemd-nspawn", *self._argv), preexec_fn=self._join
            )
            code = await host.wait()
            os.write(1, f"[board] systemd-nspawn ended with {code}\n".encode())
            if code != AGAIN:
                break
            delay = self._delay
        self._plug("down")

    def _join(self) -> None:
        """In the child: into the host's cgroups, and down with us.

        Not by KILL: that ends systemd-nspawn and leaves the host's own PID 1 an orphan.
        """
        for group in self._groups:
            (group / "cgroup.procs").write_text(str(os.getpid()))
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

    def _processes(self) -> set[int]:
        found: set[int] = set()
        for group in self._groups:
            for procs in [group / "cgroup.procs", *group.rglob("cgroup.procs")]:
                with suppress(OSError):
                    found.update(int(pid) for pid in procs.read_text().split())
        return found

    def _thaw(self) -> None:
        for group in self._groups:
            for state in [group / "freezer.state", *group.rglob("freezer.state")]:
                with suppress(OSError):
                    state.write_text("THAWED")

    def _plug(self, direction: str) -> None:
        subprocess.run(["ip", "link", "set", self._link, direction], check=False)


async def serve(socket: str, board: Board) -> None:
    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            line = (await reader.readline()).decode().strip()
            writer.write(f"{await board.obey(line)}\n".encode())
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(one, socket)
    async with server:
        await server.serve_forever()


def main() -> None:
    socket, link, groups, delay, *argv = sys.argv[1:]
    folders = [Path(line) for line in Path(groups).read_text().split()]
    asyncio.run(serve(socket, Board(link, folders, float(delay), argv)))


if __name__ == "__main__":
    main()
