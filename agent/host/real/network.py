"""The host's network: its manager, and a restart with rollback.

The rollback is a separate unit (`restart-network.sh`). It needs neither the agent nor the network,
and systemd runs its second half also if the first is killed or times out.
"""

import asyncio
import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent.host import HostError, NoSuchUnit
from agent.host.files import HostRoot, read_link
from agent.host.ports import NetworkResult
from agent.host.real.commands import Commands, HostCommand
from agent.host.systemd import SystemdHost

MANAGERS = ("systemd-networkd.service", "NetworkManager.service", "networking.service")
SCRIPT = Path(__file__).with_name("restart-network.sh")
READ_SECONDS = 10.0
UNDO_SECONDS = 30.0
NEEDED = ("bash", "ip", "timeout", "systemctl")
_RIGHTS = ("CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_DAC_OVERRIDE")
_LINES = {
    "addresses4": ("ip", "-4", "-o", "address", "show", "scope", "global"),
    "addresses6": ("ip", "-6", "-o", "address", "show", "scope", "global"),
    "routes4": ("ip", "-4", "-o", "route", "show", "table", "all", "type", "unicast"),
    "routes6": ("ip", "-6", "-o", "route", "show", "table", "all", "type", "unicast"),
    "rules4": ("ip", "-4", "rule", "show"),
    "rules6": ("ip", "-6", "rule", "show"),
}


class RealNetwork:
    """Implements agent.host.ports.Network.

    server: URL of the API server
    folder: for the files of a restart; the host must see it at the same path
    files: of the host
    """

    def __init__(
        self,
        host: SystemdHost,
        commands: Commands,
        server: str,
        folder: Path,
        files: HostRoot,
    ) -> None:
        self._host, self._commands, self._files = host, commands, files
        self._server, self._folder = server, folder

    async def manager(self) -> str:
        for name in MANAGERS:
            try:
                if (await self._host.unit(name)).active != "inactive":
                    return name
            except NoSuchUnit:
                continue
        return ""

    async def degraded(self) -> str:
        for bond in self._files.glob("/proc/net/bonding/*"):
            if "MII Status: down" in self._files.read_text(bond):
                name = bond.rpartition("/")[2]
                return f"{name} has lost a link already: a restart could take the other"
        for tool in NEEDED:
            ran = await self._commands.run(
                HostCommand(["/bin/sh", "-c", f"command -v {tool}"], READ_SECONDS)
            )
            if ran.code != 0:
                return f"{tool} is not on this host, so no way back could be kept"
        return ""

    async def begin(self, name: str, manager: str, within: float) -> None:
        saved = {what: await self._ip(*argv) for what, argv in _LINES.items()}
        links = json.loads(await self._ip("ip", "-json", "link", "show"))
        unit = _unit(name)
        try:
            script = await asyncio.to_thread(
                self._write, unit, files_of(links, saved, manager, within, self._server)
            )
        except OSError as error:
            raise HostError(f"{self._folder}: {error.strerror}: no way back is kept") from error
        folder = str(self._folder / unit)
        await self._commands.begin_persistent(
            HostCommand(
                ["/bin/bash", str(script), "act", folder],
                within * 1.5 + 5,
                _RIGHTS,
                unit,
                after=["/bin/bash", str(script), "undo", folder],
                after_limit=within + UNDO_SECONDS,
            )
        )

    async def result(self, name: str) -> NetworkResult | None:
        unit = _unit(name)
        ended = (self._folder / unit / "result").exists() or await self._commands.ended(unit)
        if not ended:
            return None
        try:
            word = (self._folder / unit / "result").read_text().strip()
        except OSError as error:
            raise HostError(f"{unit} has ended and left no result: {error.strerror}") from error
        return NetworkResult("not reached" not in word, word != "reached")

    async def forget(self, name: str) -> None:
        await self._commands.forget(_unit(name))

    def _write(self, unit: str, files: dict[str, str]) -> Path:
        """Write the files of a restart. Earlier files are removed: only one restart runs at a
        time.
        """
        shutil.rmtree(self._folder, ignore_errors=True)
        folder = self._folder / unit
        folder.mkdir(mode=0o700, parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        etc = Path(self._files.root, "etc")
        if not read_link(etc, "resolv.conf") and self._files.exists("/etc/resolv.conf"):
            (folder / "resolv.conf").write_bytes(self._files.read_bytes("/etc/resolv.conf"))
        return Path(shutil.copyfile(SCRIPT, folder / SCRIPT.name))

    async def _ip(self, *argv: str) -> str:
        return await self._commands.checked(HostCommand(argv, READ_SECONDS))


def files_of(
    links: Sequence[dict[str, Any]],
    saved: dict[str, str],
    manager: str,
    within: float,
    server: str,
) -> dict[str, str]:
    """Return the input files of `restart-network.sh`, by file name. Pure function."""
    address = urlsplit(server)
    addresses: list[tuple[str, str]] = []
    routes: dict[str, list[str]] = {}
    restore: dict[str, list[str]] = {
        "4": [f"link set dev {_name(link['ifname'])} mtu {link['mtu']} up" for link in _up(links)],
        "6": [],
    }
    for family, lines in restore.items():
        for device, what, more in map(_address, _lines(saved[f"addresses{family}"])):
            addresses.append((device, what))
            lines.append(f"address replace {what} dev {device}{more}")
        routes[family] = _lines(saved[f"routes{family}"])
        plain = [_route(line) for line in routes[family] if " table local" not in line]
        # A gateway has its own route, which must exist first.
        plain.sort(key=lambda line: " via " in line or "nexthop" in line)
        lines += [f"route replace {line}" for line in plain if line]
        lines += [f"rule add {_rule(r)}" for r in _lines(saved[f"rules{family}"]) if _own(r)]
    main = [
        _strip_route(line) for lines in routes.values() for line in lines if " table " not in line
    ]
    return {
        "manager": manager,
        "within": f"{within:.0f}",
        "host": address.hostname or "",
        "port": str(address.port or 443),
        "addresses": "".join(f"{device} {what}\n" for device, what in addresses),
        "routes": "".join(f"{line}\n" for line in main),
        **{f"restore{f}": "".join(f"{line}\n" for line in ls) for f, ls in restore.items()},
    }


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _up(links: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [link for link in links if "UP" in link["flags"]]


def _name(text: str) -> str:
    return text.partition("@")[0]


def _address(line: str) -> tuple[str, str, str]:
    """Parse a line of `ip -o address`: device, address with prefix, and lifetimes."""
    fields = line.split()
    device, what = _name(fields[1]), fields[3]
    more = ""
    if "brd" in fields:
        more += f" broadcast {fields[fields.index('brd') + 1]}"
    if "valid_lft" in fields and fields[fields.index("valid_lft") + 1] != "forever":
        valid, preferred = (fields[fields.index(f"{w}_lft") + 1] for w in ("valid", "preferred"))
        more += (
            f" valid_lft {valid.removesuffix('sec')} preferred_lft {preferred.removesuffix('sec')}"
        )
    return device, what, more


_STATES = frozenset({"linkdown", "dead", "offload", "trap", "rt_offload", "rt_trap"})


def _route(line: str) -> str:
    """Return a line of `ip -o route` without what `ip route replace` does not accept."""
    tokens: list[str] = []
    skip = False
    for word in line.replace("\\", " ").split():
        if skip or word in _STATES:
            skip = False
        elif word in ("expires", "pref", "error"):
            skip = True
        else:
            tokens.append(word)
    return " ".join(tokens)


def _strip_route(line: str) -> str:
    """Return the form in which the script sees the same route again."""
    return line.partition(" \\")[0].partition("\\")[0].partition(" expires")[0].rstrip()


def _own(rule: str) -> bool:
    """Whether the rule is none of the three default rules of the kernel."""
    return rule.split(":")[0] not in ("0", "32766", "32767")


def _rule(line: str) -> str:
    r"""Convert a line such as `32766:\tfrom all lookup main` to the arguments of `ip rule add`."""
    priority, _, rest = line.partition(":")
    return f"priority {priority} {' '.join(rest.split())}"


def _unit(name: str) -> str:
    return f"kubenode-network-{hashlib.sha256(name.encode()).hexdigest()[:24]}"
