"""Ports of the host besides its service manager, one small port for each subject.

`agent.host.real` implements them for this machine, `simulation.hosts.host` in memory for the demo
and for tests. With all of them, the state is read before an action is requested, and each action is
one call. Every method raises HostError if the host does not do or report what is asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from agent.host.containers import Containers
from agent.host.storage import Disks, Filesystems


@dataclass(frozen=True, slots=True)
class Process:
    """A process. PID and start time together identify it during one boot.

    start_time: clock ticks after the boot, field 22 of /proc/PID/stat
    exe: full path; "" for kernel threads
    unit: systemd unit of the process; "" for none
    state: one letter, such as R, S, D, Z, T
    """

    pid: int
    start_time: int
    exe: str = ""
    unit: str = ""
    state: str = "S"


class Processes(Protocol):
    async def find(self, pid: int) -> Process | None:
        """Return the process of this PID; None if there is none."""
        ...

    async def signal(self, process: Process, name: str) -> bool:
        """Send TERM or KILL to exactly this process. False if it has already ended."""
        ...

    async def runs(self, program: str) -> bool:
        """Whether a process with this short name runs, in any container."""
        ...


CHRONY = ("chrony.service", "chronyd.service")
"""Units of chrony, which slews the clock itself. All other services let the kernel slew it."""


@dataclass(frozen=True, slots=True)
class TimeState:
    """State of the host's time service.

    offset: seconds that the clock is off; None if unknown
    synchronised: whether a time source has been selected
    reachable: number of sources that answer
    service: unit that keeps the time
    """

    service: str
    offset: float | None
    synchronised: bool
    reachable: int


class TimeService(Protocol):
    async def state(self) -> TimeState: ...

    async def moved_since_boot(self) -> float:
        """Seconds by which the clock was set forward since systemd started; below 0: backward."""
        ...

    async def measure(self) -> None:
        """Query the sources now instead of at their next poll."""
        ...

    async def step(self) -> None:
        """Set the clock at once."""
        ...


@dataclass(frozen=True, slots=True)
class Module:
    """A loaded or built-in kernel module.

    users: number of uses, by devices and other modules
    holders: modules that depend on it
    """

    name: str
    users: int
    holders: tuple[str, ...] = ()


class Kernel(Protocol):
    async def memory(self) -> int:
        """Memory of the whole host in bytes."""
        ...

    async def sysctl(self, name: str) -> str: ...

    async def set_sysctl(self, name: str, value: str) -> None: ...

    async def module(self, name: str) -> Module | None:
        """Return the module; None if it is not loaded. One that is built in counts as in use."""
        ...

    async def load(self, name: str) -> None: ...

    async def unload(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class NetworkResult:
    """Result of a restart of the network.

    reachable: whether this host reaches the API server
    """

    reachable: bool
    rolled_back: bool
    output: str = ""


class Network(Protocol):
    async def manager(self) -> str:
        """Unit that configures the network of this host; "" if no known one runs."""
        ...

    async def degraded(self) -> str:
        """Reason not to change the network; "" for none."""
        ...

    async def begin(self, name: str, manager: str, within: float) -> None:
        """Restart `manager` outside the agent, with a rollback outside the agent.

        Links, addresses and routes are saved first. If the API server is not reached in time, they
        are restored, whatever happens to the agent.

        name: name of the request
        within: seconds until the API server must be reached
        """
        ...

    async def result(self, name: str) -> NetworkResult | None:
        """Return the result; None while it is under way. Raises HostError for an unknown name."""
        ...

    async def forget(self, name: str) -> None:
        """Remove the resources of the restart. The result stays until the next restart begins."""
        ...


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of the host.

    users: number of processes that use it
    divided: whether it is in MIG mode
    answers: False for one that has fallen off the bus
    """

    uuid: str
    index: int
    users: int
    divided: bool
    answers: bool


class Gpus(Protocol):
    async def gpus(self) -> list[Gpu]: ...

    async def reset(self, uuids: Sequence[str]) -> None: ...


@dataclass(frozen=True, slots=True)
class Certificate:
    not_before: datetime
    not_after: datetime


class KubeletCertificateStore(Protocol):
    async def read(self) -> Certificate | None:
        """Return kubelet's current client certificate; None if kubelet has none of its own."""
        ...

    async def can_bootstrap(self) -> bool:
        """Whether kubelet has what it needs to request a first certificate again."""
        ...

    async def set_aside(self) -> None: ...

    async def put_back(self) -> None:
        """Undo `set_aside`, unless there is a new certificate."""
        ...


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of a command.

    code: exit status; the negative signal number if a signal ended it
    """

    code: int
    output: str


class Scripts(Protocol):
    async def begin(
        self, name: str, program: bytes, args: Sequence[str], limit: float
    ) -> CommandResult:
        """Run exactly these bytes as a transient unit that survives a restart of the agent.

        limit: seconds, after which the script is ended

        Raises TimeoutError if the script was ended at `limit`.
        """
        ...

    async def ended(self, name: str) -> CommandResult | None:
        """Return the result after an interruption, until the next script begins; None while it
        runs.

        Raises HostError if the script is no longer known.
        """
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    processes: Processes
    disks: Disks
    containers: Containers
    time: TimeService
    kernel: Kernel
    filesystems: Filesystems
    network: Network
    gpus: Gpus
    kubelet_certificate: KubeletCertificateStore
    scripts: Scripts
