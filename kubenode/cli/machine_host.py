"""Acts on a host that is imported or exported: probe it, install the agent, clean up."""

import shlex
from dataclasses import dataclass

from kubenode.cli.exits import Refusal
from kubenode.cli.machine_import_package import AgentPackage
from kubenode.cli.machine_ssh import Remote, SshResult
from kubenode.runtime.clock import Clock
from machine.hostimport.components import ComponentRemains, parse_remains, program
from machine.hostimport.join_settings import BROUGHT, CACHE, PACKAGE, SERVICE, STATE, TOKEN_FILE
from machine.hostimport.preflight import SUFFIXES
from machine.hostimport.preflight import ClockOffset as Offset
from machine.hostimport.probe import HostFacts, parse, probe_script

FOLDER = "/var/lib/kubenode-import"
"""Work folder on the host.

Only root may read it; it is removed at the end. What an interrupted connection left there is
overwritten.
"""
SCRIPT = f"{FOLDER}/join.sh"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INSTALL_SECONDS = 900.0
"""apt-get may wait 300 s for the package lock, and then fetches the package's dependencies."""
READS = ("env", f"PATH=/opt/kubenode/bin:{PATH}", "python3", "-c", program())
"""The agent's own Python, else the host's, which earlier packages of the agent needed."""
REMOVE = f"""
if command -v dpkg-query >/dev/null && dpkg-query -W {PACKAGE} >/dev/null 2>&1; then
    DEBIAN_FRONTEND=noninteractive apt-get purge -y --allow-change-held-packages \\
        -o DPkg::Lock::Timeout=300 {PACKAGE} >/dev/null
elif command -v rpm >/dev/null && rpm --query {PACKAGE} >/dev/null 2>&1; then
    if command -v dnf >/dev/null; then
        dnf --quiet versionlock delete {PACKAGE} >/dev/null 2>&1 || :
        dnf --assumeyes --quiet remove {PACKAGE} >/dev/null
    elif command -v zypper >/dev/null; then zypper --non-interactive remove {PACKAGE} >/dev/null
    elif command -v yum >/dev/null; then yum --assumeyes remove {PACKAGE} >/dev/null
    else rpm --erase {PACKAGE}
    fi
elif [ -x /opt/kubenode/bin/setup ]; then
    /opt/kubenode/bin/setup uninstall
fi
rm -rf {STATE} {CACHE} /etc/kubenode
[ -d /opt ] || install -d -m 0755 /opt # dpkg removes it if it is empty
"""
"""Removes the agent's package with settings and state. dnf removes what came along by itself."""
OURS = (
    "/etc/kubenode",
    "/opt/kubenode",
    "/opt/kubenode-agent",
    STATE,
    CACHE,
    FOLDER,
    f"/usr/lib/systemd/system/{SERVICE}",
    f"/etc/systemd/system/{SERVICE}",
    f"/etc/systemd/system/{SERVICE}.d",
)
"""Paths that only the agent and its import create."""


@dataclass(frozen=True, slots=True)
class HostLeftovers:
    """What remains on an exported host.

    paths: paths of ours.
    packages: packages that came with the agent and that other packages need by now.
    components: components, and what could not be restored of each.
    """

    paths: tuple[str, ...]
    packages: tuple[str, ...]
    components: tuple[ComponentRemains, ...]


class ImportHost:
    def __init__(self, remote: Remote, name: str, clock: Clock) -> None:
        self._remote, self._name, self._clock = remote, name, clock

    async def probe(self, server: str = "", ca: str = "") -> tuple[HostFacts, Offset]:
        """Read facts and the clock offset of the host; changes nothing. Raises Refusal."""
        offset = await self._offset()
        shell = (
            'if [ "$(id -u)" = 0 ] || ! sudo -n true </dev/null 2>/dev/null;'
            " then exec sh -s; fi; exec sudo -n sh -s"
        )
        script = probe_script(server, ca).encode()
        ran = await self._remote.run(f"sh -c {shlex.quote(shell)}", script)
        return parse(ran.out), offset

    async def _offset(self) -> Offset:
        before = self._clock.now()
        ran = await self._remote.run("date +%s.%N")
        after = self._clock.now()
        try:
            there = float(ran.out)
        except ValueError:
            raise Refusal(f"{self._name}: `date` says {ran.out.strip()!r}: no time") from None
        half = (after - before).total_seconds() / 2
        return Offset(there - before.timestamp() - half, half)

    async def join(self, script: str, token: str, package: AgentPackage | None) -> str:
        """Install and start the agent; repeating it is harmless. Return the script's output.

        token: the bootstrap token.
        package: the agent's package to send along; None if the host downloads it.

        Raises Refusal.
        """
        await self._root(f"umask 077; mkdir -p {FOLDER}")
        command = ["sh", SCRIPT]
        if package is not None:
            path = f"{FOLDER}/{PACKAGE}{SUFFIXES[package.format]}"
            await self._put(path, package.content)
            command += ["--package", path, "--sha256", package.sha256]
        await self._put(SCRIPT, script.encode())
        ran = await self._root(shlex.join(command), f"{token}\n".encode(), INSTALL_SECONDS)
        await self._root(f"rm -rf {FOLDER}")
        return ran.out.strip()

    async def forget_token(self) -> None:
        """Remove the token file: the token is useless once the agent has its certificate."""
        await self._root(f"rm -f {TOKEN_FILE}")

    async def leave(self) -> HostLeftovers:
        """Remove the agent with its files, and return what remains. Raises Refusal.

        The caller must check that the host does not belong to another Machine.
        """
        # Kept until the end: a run after a broken connection needs them too.
        note = (
            f"umask 077; mkdir -p {FOLDER}; cd {FOLDER}; if [ -d {STATE} ]; then"
            f" cat {BROUGHT} >brought 2>/dev/null || :; {shlex.join(READS)} >components || :; fi;"
        )
        brought = (await self._root(f"{note} cat brought 2>/dev/null || true")).out.split()
        records = await self._root(f"cat {FOLDER}/components 2>/dev/null || true")
        await self._root(REMOVE, seconds=INSTALL_SECONDS)
        stay = await self._take_along(brought)
        await self._root(f"rm -rf {FOLDER}")
        list_command = "; ".join(f"[ ! -e {path} ] || echo {path}" for path in OURS)
        paths = (await self._root(list_command)).out.split()
        return HostLeftovers(tuple(paths), stay, parse_remains(records.out))

    async def _take_along(self, brought: list[str]) -> tuple[str, ...]:
        """Purge packages that came with the agent and that no other package needs.

        Return the names of the others.
        """
        if not brought:
            return ()
        simulated = await self._root(
            "! command -v apt-get >/dev/null || apt-get --simulate autoremove"
        )
        unneeded = [
            fields[1]
            for line in simulated.out.splitlines()
            if (fields := line.split())[:1] in (["Remv"], ["Purg"]) and fields[1] in brought
        ]
        if unneeded:
            purge = shlex.join(["dpkg", "--purge", *unneeded])
            await self._root(f"DEBIAN_FRONTEND=noninteractive {purge}", seconds=INSTALL_SECONDS)
        debs = shlex.join(["dpkg-query", "-W", "-f=${db:Status-Abbrev} ${Package}\\n", *brought])
        rpms = shlex.join(["rpm", "--query", "--queryformat", "ii %{NAME}\\n", *brought])
        shell = f"if command -v dpkg-query >/dev/null; then {debs}; else {rpms}; fi"
        ran = await self._root(f"{{ {shell}; }} 2>/dev/null || true")
        lines = (line.split() for line in ran.out.splitlines())
        return tuple(fields[-1] for fields in lines if fields[:1] == ["ii"])

    async def _put(self, path: str, content: bytes) -> None:
        await self._root(f"umask 077; cat > {path}", content, INSTALL_SECONDS)

    async def _root(self, command: str, stdin: bytes = b"", seconds: float = 60.0) -> SshResult:
        """Run a command as root. Raises Refusal with the last lines of its errors if it fails."""
        quoted = shlex.quote(command)
        shell = f'if [ "$(id -u)" = 0 ]; then exec sh -c {quoted}; fi; exec sudo -n sh -c {quoted}'
        ran = await self._remote.run(f"sh -c {shlex.quote(shell)}", stdin, seconds)
        if ran.code != 0:
            message = " ".join(f"{ran.err}".strip().splitlines()[-5:]) or f"exit code {ran.code}"
            raise Refusal(f"{self._name}: {message}")
        return ran
