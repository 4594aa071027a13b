"""Hosts behind an SSH server of this process: real SSH, and a host that only answers.

A host is told by the user name; all of them show one key. What each was asked is kept.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

WELL = {
    "uid": "0",
    "hostname": "anything",
    "machine": "x86_64",
    "os": "debian-12",
    "systemd": "252",
    "synchronised": "yes",
    "dpkg": "amd64",
    "python": "3.11",
    "reach": "ok",
    "end": "yes",
}
"""What the probe says of a host outside Kubernetes."""


@dataclass
class AnsweringHost:
    """says     over WELL; None takes a word out
    on_join  given the token, when the script runs
    cut_at   the connection breaks at the first command that contains it
    asked    each command with what came on its standard input
    """

    name: str
    says: dict[str, str | None] = field(default_factory=dict)
    on_join: Callable[[str], Awaitable[None]] | None = None
    cut_at: str = ""
    asked: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def joins(self) -> int:
        return sum(_joins(command) for command, _ in self.asked)

    async def answer(self, command: str, stdin: bytes) -> str:
        if command.startswith("date"):
            return f"{time.time():.6f}\n"
        if "sh -s" in command:
            said = {**WELL, **self.says}
            return "".join(f"{word} {value}\n" for word, value in said.items() if value is not None)
        if _joins(command):
            if self.on_join is not None:
                await self.on_join(stdin.decode().strip())
            return "kubenode: kubenode-agent 0.1.0 runs\n"
        return ""


def _joins(command: str) -> bool:
    return "sh /var/lib/kubenode-import/join.sh" in command


class Door(asyncssh.SSHServer):
    """Counts who is in, so that none is left behind at the end."""

    def __init__(self, hosts: "AnsweringHosts") -> None:
        self._hosts = hosts

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._hosts.inside += 1
        self._hosts.empty.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        self._hosts.inside -= 1
        if not self._hosts.inside:
            self._hosts.empty.set()


class AnsweringHosts:
    """`identity` and `known_hosts` are the client's files."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        self.identity, self.known_hosts = folder / "id_ed25519", folder / "known_hosts"
        self.hosts: dict[str, AnsweringHost] = {}
        self.inside, self.empty = 0, asyncio.Event()
        self.empty.set()

    def add(self, name: str, **how: object) -> AnsweringHost:
        host = AnsweringHost(name, **how)  # type: ignore[arg-type]
        self.hosts[name] = host
        return host

    def row(self, name: str) -> dict[str, object]:
        """What a file says of the host."""
        return {
            "host": name,
            "ssh": f"{name}@127.0.0.1:{self.port}",
            "identity": str(self.identity),
            "knownHosts": str(self.known_hosts),
        }

    async def handle(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        host = self.hosts[process.get_extra_info("username")]
        command = process.command or ""
        stdin = await process.stdin.read()
        host.asked.append((command, stdin))
        if host.cut_at and host.cut_at in command:
            process.channel.get_connection().abort()
            return
        process.stdout.write((await host.answer(command, stdin)).encode())
        process.exit(0)


@asynccontextmanager
async def answering_hosts(folder: Path) -> AsyncIterator[AnsweringHosts]:
    """On a free port of 127.0.0.1, until the end of the block."""
    theirs, mine = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    authorized = asyncssh.import_authorized_keys(mine.export_public_key().decode())
    hosts = AnsweringHosts(folder, 0)
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[theirs],
        authorized_client_keys=authorized,
        server_factory=lambda: Door(hosts),
        process_factory=hosts.handle,
        encoding=None,
    )
    hosts.port = server.get_port()
    mine.write_private_key(hosts.identity)
    hosts.identity.chmod(0o600)
    public = theirs.export_public_key().decode()
    hosts.known_hosts.write_text(f"[127.0.0.1]:{hosts.port} {public}")
    try:
        yield hosts
    finally:
        server.close()
        async with asyncio.timeout(30):
            await server.wait_closed()
            await hosts.empty.wait()
