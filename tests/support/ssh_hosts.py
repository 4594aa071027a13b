"""Disposable hosts that let one key in by SSH, and files that make a client strict about them."""

from pathlib import Path

import asyncssh
from support.hosts import Host

USER = "root"


class SshHosts:
    """`identity` is the client's private key, `known_hosts` has every host that was opened."""

    def __init__(self, folder: Path) -> None:
        self.identity, self.known_hosts = folder / "id_ed25519", folder / "known_hosts"
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(self.identity)
        self.identity.chmod(0o600)
        self._public = key.export_public_key().decode()
        self.known_hosts.write_text("")

    def open(self, host: Host, *, known: bool = True) -> None:
        """Start its SSH server. `known`: write its key where the client looks for it."""
        host.write(f"/{USER}/.ssh/authorized_keys", self._public, 0o600)
        (host.root / USER / ".ssh").chmod(0o700)
        host.run("ssh-keygen", "-A")
        host.run("systemctl", "enable", "--now", "ssh.service")
        if known:
            self.know(host)

    def know(self, host: Host) -> None:
        public = host.read("/etc/ssh/ssh_host_ed25519_key.pub").split()
        with self.known_hosts.open("a") as file:
            file.write(f"{host.address} {public[0]} {public[1]}\n")

    @property
    def flags(self) -> list[str]:
        return ["--identity", str(self.identity), "--known-hosts", str(self.known_hosts)]
