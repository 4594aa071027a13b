"""Port to the host: what repairs need of it, independent of the implementation.

`agent.host.systemd` implements it for a real host; the demo simulates hundreds of hosts. Nothing
here depends on Kubernetes.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"
"""UUID that the kernel generates at each boot; kubelet reports it as `nodeInfo.bootID`."""


class HostError(Exception):
    """The host did not do what was asked. The text holds the attempt and the answer."""


class NoSuchUnit(HostError):
    """systemd has no unit of this name, or the unit is masked."""


class Contraindicated(HostError):
    """The action must not be done in the present state of the host. The text holds the reason."""


class HostUnreachable(HostError):
    """No answer from the host's service manager. The action may or may not have been done."""


class UnitVerb(StrEnum):
    """Jobs of a unit. Values are the names of systemd's D-Bus methods."""

    RESTART = "RestartUnit"
    START = "StartUnit"
    STOP = "StopUnit"
    RELOAD = "ReloadUnit"


@dataclass(frozen=True, slots=True)
class Unit:
    """State of a unit, as the service manager reports it.

    active: `active`, `reloading`, `inactive`, `failed`, `activating` or `deactivating`
    sub: state specific to the unit type, such as `running`, `dead`, `exited`, `auto-restart`
    result: `success`, or the reason of the failure: `exit-code`, `signal`, `start-limit-hit` and
        others
    exit_status: of the main process; 0 also if it has never ended
    invocation: ID that changes at each start of the unit; "" if it never started or its state was
        dropped
    oneshot: a service that does its work and ends; `inactive` is its usual state afterwards
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
        """Whether the state is stable until something happens."""
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
        """Return the unit. Raises NoSuchUnit, HostUnreachable."""
        ...

    async def reset_failed(self, name: str) -> None:
        """Reset the failed state and the counter of starts, which counts for the start limit."""
        ...

    async def unit_job(self, verb: UnitVerb, name: str, timeout: float) -> None:  # noqa: ASYNC109
        """Request the job `verb` and wait until the service manager has done it.

        timeout: seconds

        Raises NoSuchUnit, HostUnreachable; HostError if the job failed or took longer than
        `timeout`.
        """
        ...

    async def reboot(self) -> None:
        """Order an ordinary reboot, which stops services first. Returns when the reboot is under
        way.

        Raises HostUnreachable or HostError if the reboot was not ordered.
        """
        ...


def read_boot_id(path: str = BOOT_ID_FILE) -> str:
    """Return the boot ID, or "" if it cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""
