"""Disposable hosts: Debian with its own systemd, journal, D-Bus and network, in one second.

    with Hosts() as hosts:
        host = hosts.boot("h1", bind={repo / "agent": "/opt/kubenode/src/agent"})
        host.run("systemctl", "start", "web.service")
        host.reboot()

Each `Hosts` claims a bridge and a /24 of its own (kn7 and 10.88.7.0/24), so suites run side by
side. A host's disk is an overlay over one image; nothing of it is left after `with`, and what a
killed test run left is cleared away by the next one.

PID 1 of the machine that runs the tests need not be systemd, so machinectl is no use: a host is
entered with nsenter. Root is needed.
"""

import ipaddress
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from support.cgroups import end_groups, make_groups
from support.components import HOSTS, check
from support.daemons import Daemon
from support.host_claims import (
    HostError,
    claim_network,
    claims,
    clear_what_others_left,
    command,
    left_of,
    mount_for_nspawn,
    release_network,
    remove_host,
    room_for_hosts,
)
from support.host_image import base_image

BOARD = Path(__file__).parents[1] / "hosts" / "board.py"
POWER = BOARD.with_name("power.py")
FIRST_HOST = 11
UP_SECONDS = 90.0
"""Generous: a boot takes a second on an idle machine."""
OFF_SECONDS = 60.0


class Hosts:
    """Some hosts on one bridge. `gateway` is this machine's address on it.

    Raises MissingComponent on entry when the machine cannot run hosts.
    """

    def __enter__(self) -> Self:
        check(HOSTS)
        self._image = base_image()
        self._hosts: dict[str, Host] = {}
        self._numbers = count(FIRST_HOST)
        """Never again of one that is gone, which a new one of its name would share."""
        # On a real disk: an overlay cannot lie on an overlay or on some tmpfs.
        self.folder = Path(tempfile.mkdtemp(prefix="kubenode-hosts-"))
        try:
            with claims():
                clear_what_others_left()
                mount_for_nspawn()
                room_for_hosts()
                self.bridge, self._net = claim_network(self.folder)
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        self.gateway = f"{self._net}.1"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for host in list(self._hosts.values()):
            host.destroy()
        with claims():
            release_network(self.bridge)
            shutil.rmtree(self.folder, ignore_errors=True)

    def boot(
        self,
        name: str,
        *,
        bind: Mapping[Path, str] | None = None,
        args: Sequence[str] = (),
        boot_delay: float = 0.0,
        image: Path | None = None,
    ) -> "Host":
        """A new host, up and running. `name` has at most 9 characters.

        bind        read-only: folder or file here, and where the host sees it
        args        more arguments for systemd-nspawn
        boot_delay  seconds between down and up of every reboot
        image       its disk at first, None for the one that all share
        """
        address = str(ipaddress.ip_address(f"{self._net}.{next(self._numbers)}"))
        binds = [f"--bind-ro={here}:{there}" for here, there in (bind or {}).items()]
        host = Host(self, name, address, image or self._image, [*binds, *args], boot_delay)
        self._hosts[name] = host
        host.start()
        return host

    def __getitem__(self, name: str) -> "Host":
        return self._hosts[name]

    @property
    def session(self) -> str:
        """A name for this session's hosts that no other session on this machine has."""
        return self.folder.name

    @property
    def power_command(self) -> list[str]:
        """For the settings of the provider `local`: it switches `SESSION/NAME` for each host."""
        return [sys.executable, str(POWER), str(self.folder)]


class Host:
    """One host. `root` is its disk as this machine sees it; `address` its IPv4 address; `groups`
    are its cgroups.
    """

    def __init__(
        self,
        hosts: Hosts,
        name: str,
        address: str,
        image: Path,
        args: Sequence[str],
        boot_delay: float,
    ) -> None:
        self.name, self.address = name, address
        self._bridge, self._gateway, self._image = hosts.bridge, hosts.gateway, image
        self._link = f"{hosts.bridge}-{name}"
        self._folder = hosts.folder / name
        self._socket = self._folder / "board"
        self.root = self._folder / "root"
        self._args, self._boot_delay = list(args), boot_delay
        self.groups: list[Path] = []
        self._daemon: Daemon | None = None

    # ---- life

    def start(self) -> None:
        """Boot a new host, or one that was stopped or lost its power."""
        if not self.root.exists():
            self._make_disk()
            self._make_network()
            self.groups = make_groups(self._link)
            (self._folder / "groups").write_text("".join(f"{group}\n" for group in self.groups))
        if self._daemon is None:
            self._start_board()
        self.board("on")
        self._wait_up("")

    def _start_board(self) -> None:
        nspawn = ["--quiet", "--boot", f"--directory={self.root}", f"--machine={self.name}"]
        nspawn += ["--register=no", "--keep-unit", "--console=pipe", "--timezone=off"]
        nspawn += ["--resolv-conf=off", f"--network-namespace-path=/run/netns/{self._link}"]
        self._daemon = Daemon(
            f"host {self.name}",
            [
                *(sys.executable, str(BOARD), str(self._socket), self._link),
                *(str(self._folder / "groups"), str(self._boot_delay)),
                *(*nspawn, *self._args),
            ],
            self._folder / "console.log",
        )
        self._daemon.start()
        self._daemon.wait_until(lambda: self._socket.exists() and self.board("state") != "", 30)

    def board(self, word: str) -> str:
        """What the host's board answers (tests/hosts/board.py); "" when it is not there."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(30)
            try:
                line.connect(str(self._socket))
                line.sendall(f"{word}\n".encode())
                with line.makefile() as answer:
                    return answer.readline().strip()
            except OSError:
                return ""

    def _make_disk(self) -> None:
        upper, work = self._folder / "upper", self._folder / "work"
        for folder in (upper, work, self.root):
            folder.mkdir(parents=True)
        layers = f"lowerdir={self._image},upperdir={upper},workdir={work}"
        command("mount", "-t", "overlay", self._link, "-o", layers, self.root)
        (self.root / "etc/hostname").write_text(f"{self.name}\n")
        names = f"127.0.0.1 localhost\n{self.address} {self.name}\n"
        (self.root / "etc/hosts").write_text(names)

    def _make_network(self) -> None:
        """A namespace made beforehand keeps address and link over reboots."""
        netns = self._link
        command("ip", "netns", "add", netns)
        peer = ["type", "veth", "peer", "name", "eth0", "netns", netns]
        command("ip", "link", "add", self._link, *peer)
        command("ip", "link", "set", self._link, "master", self._bridge)
        for words in (
            ["link", "set", "lo", "up"],
            ["addr", "add", f"{self.address}/24", "dev", "eth0"],
            ["link", "set", "eth0", "up"],
            ["route", "add", "default", "via", self._gateway],
        ):
            command("ip", "-n", netns, *words)

    def _wait_up(self, not_boot: str) -> None:
        end = time.monotonic() + UP_SECONDS
        while True:
            boot = self.boot_id()
            if boot and boot != not_boot:
                state = self.run("systemctl", "is-system-running", check=False).stdout.strip()
                if state in ("running", "degraded"):
                    return
            if self._daemon is None:
                raise HostError(f"{self.name} is not started")
            if self.board("state") != "on" or time.monotonic() > end:
                raise HostError(f"{self.name} does not come up:\n{self._daemon.tail()}")
            time.sleep(0.05)

    def reboot(self) -> None:
        """An orderly reboot; returns when the host is up again."""
        before = self.boot_id()
        self.run("systemctl", "reboot", check=False)
        self._wait_up(before)

    def wait_rebooted(self, before: str) -> None:
        """Wait until the host runs another boot than `before`, whoever asked for it."""
        self._wait_up(before)

    def power_cut(self) -> None:
        """PID 1 dies. The disk is kept, and so is what the kernel had not written yet."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, 9)
        self._wait_off()

    def power_off(self) -> None:
        self.run("systemctl", "poweroff", check=False)
        self._wait_off()

    def _wait_off(self) -> None:
        end = time.monotonic() + OFF_SECONDS
        while self.board("state") not in ("off", ""):
            if self._daemon is None or time.monotonic() > end:
                raise HostError(f"{self.name} does not go down:\n{self.console()}")
            time.sleep(0.05)

    def hang(self) -> None:
        """Every process of the host stops at once and for good; only `thaw` or its board help."""
        (self.group("freezer") / "freezer.state").write_text("FROZEN")

    def thaw(self) -> None:
        (self.group("freezer") / "freezer.state").write_text("THAWED")

    def console(self) -> str:
        return self._daemon.tail() if self._daemon is not None else ""

    @property
    def boots(self) -> int:
        """How often it has begun to boot."""
        log = self._folder / "console.log"
        return log.read_text(errors="replace").count("[board] boot\n") if log.exists() else 0

    def destroy(self) -> None:
        """Power cut, then nothing is left of it. Safe at any time."""
        if self._daemon is not None:
            self.board("off")
            self._daemon.kill()
        end_groups(self.groups)
        remove_host(self._link, self.root, self.groups)
        shutil.rmtree(self._folder, ignore_errors=True)

    def traces(self) -> list[str]:
        """What of it is left after `destroy`: nothing."""
        return left_of(self._link, self.root, self.groups)

    # ---- use

    @property
    def pid(self) -> int:
        """PID 1 of the host as this machine numbers it. Raises HostError when it is down."""
        board = self._daemon.process if self._daemon is not None else None
        if board is not None and board.poll() is None:
            for nspawn in _children(board.pid, "systemd-nspawn"):
                for systemd in _children(nspawn, "systemd"):
                    return systemd
        raise HostError(f"{self.name} is not running")

    def boot_id(self) -> str:
        """ "" while the host is down or on its way."""
        try:
            return Path(f"/proc/{self.pid}/root/proc/sys/kernel/random/boot_id").read_text().strip()
        except (HostError, OSError):
            return ""

    def run(
        self, *argv: str, check: bool = True, timeout: float = 60, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the host. It has this machine's capabilities and cgroup, as a person
        at the console would; what only a service sees, a service must try.

        With `check` a failure raises HostError with its output.
        """
        try:
            enter = ["nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w"]
        except HostError:
            if check:
                raise
            return subprocess.CompletedProcess(argv, 255, "", f"{self.name} is not running")
        clean = ["/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"]
        clean += ["LANG=C.UTF-8", "TERM=dumb", "DEBIAN_FRONTEND=noninteractive"]
        done = subprocess.run(
            [*enter, "--", *clean, *argv],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode != 0:
            said = f"{done.stdout}{done.stderr}".strip()
            raise HostError(f"{self.name}: {' '.join(argv)} ended with {done.returncode}: {said}")
        return done

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Put a file on the host's disk, its folders made as needed."""
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)

    def read(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text()

    def unit(self, name: str, property: str) -> str:
        """One property of a systemd unit, as `systemctl show` tells it."""
        return self.run("systemctl", "show", name, "-P", property).stdout.strip()

    def journal(self, unit: str, lines: int = 50) -> str:
        """The end of a unit's log of this boot."""
        argv = ["journalctl", "-b", "-u", unit, "-n", str(lines), "-o", "cat", "--no-pager"]
        return self.run(*argv, check=False).stdout

    def plug(self, connected: bool) -> None:
        """The network cable. Unplugged, packets vanish; nobody answers with a reset."""
        command("ip", "link", "set", self._link, "up" if connected else "down")

    def group(self, controller: str) -> Path:
        """The host's cgroup directory of a controller (cgroup v1: memory, pids, cpu, freezer)."""
        for group in self.groups:
            if controller in group.parts:
                return group
        raise HostError(f"{self.name} has no cgroup of {controller}")


def _children(pid: int, name: str) -> list[int]:
    """The children of `pid` whose program is called `name`."""
    found = []
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if Path(f"/proc/{child}/comm").read_text().strip() == name:
                found.append(int(child))
    return found
