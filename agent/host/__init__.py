"""The host behind a port: what repairs need of it, whoever provides it.

`agent.host.systemd` is a real one; the demo simulates hundreds. Nothing here knows of Kubernetes.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"
"""A UUID that the kernel draws at each boot; what kubelet reports as nodeInfo.bootID."""


class HostError(Exception):
    """The host did not do what was asked; the text says what was tried and what it answered."""


class NoSuchUnit(HostError):
    """systemd knows no unit of this name, or it is masked."""


class Contraindicated(HostError):
    """The host is such that the act must not be done; the text says what speaks against it."""


class HostUnreachable(HostError):
    """No answer from the host's service manager: the act may or may not have happened."""


class UnitVerb(StrEnum):
    """The jobs that can be asked of a unit; values are those of systemd's D-Bus methods."""

    RESTART = "RestartUnit"
    START = "StartUnit"
    STOP = "StopUnit"
    RELOAD = "ReloadUnit"


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit as the service manager sees it.

    active       active, reloading, inactive, failed, activating or deactivating
    sub          the unit type's own word: running, dead, exited, auto-restart ...
    result       success, or why it failed: exit-code, signal, start-limit-hit ...
    exit_status  of the main process, 0 also if it never ended
    invocation   drawn anew whenever the unit starts; "" if it never did, or it was forgotten
    oneshot      a service that does its work and ends; inactive is how it looks afterwards
    """

    name: str
    active: str
    sub: str = ""
    result: str = "success"
    exit_status: int = 0
    invocation: str = ""
    oneshot: bool = False

    @property
    def settled(self) -> bool:
        """Whether it stays as it is unless something happens."""
        return self.active not in ("activating", "deactivating", "reloading")

    def __str__(self) -> str:
        text = f"{self.name} is {self.active} ({self.sub})"
        if self.result != "success":
            text += f", result {self.result}, exit status {self.exit_status}"
        return text


class Host(Protocol):
    def boot_id(self) -> str:
        """UUID of the running boot; "" if it cannot be read, which proves nothing."""
        ...

    async def unit(self, name: str) -> Unit:
        """Raises NoSuchUnit, HostUnreachable."""
        ...

    async def reset_failed(self, name: str) -> None:
        """Forget failures and the count of starts, which the start limit would hold against us."""
        ...

    async def unit_job(self, verb: UnitVerb, name: str, timeout: float) -> None:  # noqa: ASYNC109
        """Ask for `verb` and wait until the service manager has done it.

        Raises NoSuchUnit, HostUnreachable, or HostError when it failed or outlasted `timeout`
        seconds.
        """
        ...

    async def reboot(self) -> None:
        """Order an ordinary reboot: services are stopped first. Returns when it is under way.

        Raises HostUnreachable or HostError when it was not ordered.
        """
        ...


def read_boot_id(path: str = BOOT_ID_FILE) -> str:
    """The boot ID, or "" if it cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""
