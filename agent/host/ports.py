"""What repairs need of a host besides its service manager, one small port for each subject.

`agent.host.real` has those of the machine we run on, `simulation.hosts.host` a host in memory for
the demo and for tests. All of them look before they are asked to act, and each act is one call.
Every method raises HostError when the host does not do or tell what is asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from agent.host.containers import Containers
from agent.host.storage import Disks, Filesystems


@dataclass(frozen=True, slots=True)
class Process:
    """A process. PID and start time together name one for the length of a boot.

    start_time  clock ticks after the boot, field 22 of /proc/PID/stat
    exe         full path, "" for threads of the kernel
    unit        the unit of systemd it belongs to, "" for none
    state       one letter: R S D Z T
    """

    pid: int
    start_time: int
    exe: str = ""
    unit: str = ""
    state: str = "S"


class Processes(Protocol):
    async def find(self, pid: int) -> Process | None:
        """None: there is none of this PID."""
        ...

    async def signal(self, process: Process, name: str) -> bool:
        """Send TERM or KILL to exactly this process; False if it has ended before."""
        ...

    async def runs(self, program: str) -> bool:
        """Whether a process with this short name runs, in whatever container."""
        ...


CHRONY = ("chrony.service", "chronyd.service")
"""Units of chrony, which slews the clock by itself; all others let the kernel do it."""


@dataclass(frozen=True, slots=True)
class TimeState:
    """offset        seconds that the clock is off, None while nobody knows
    synchronised  whether a source has been agreed on
    reachable     sources that answer
    service       the unit that keeps the time
    """

    service: str
    offset: float | None
    synchronised: bool
    reachable: int


class TimeService(Protocol):
    async def state(self) -> TimeState: ...

    async def moved_since_boot(self) -> float:
        """Seconds by which the clock was set forward (below 0: back) since systemd started."""
        ...

    async def measure(self) -> None:
        """Ask the sources at once instead of at their next turn."""
        ...

    async def step(self) -> None:
        """Set the clock at once."""
        ...


@dataclass(frozen=True, slots=True)
class Module:
    """users    how often it is used, by devices and other modules
    holders  the modules that stand on it
    """

    name: str
    users: int
    holders: tuple[str, ...] = ()


class Kernel(Protocol):
    async def memory(self) -> int:
        """Bytes of the whole host."""
        ...

    async def sysctl(self, name: str) -> str: ...

    async def set_sysctl(self, name: str, value: str) -> None: ...

    async def module(self, name: str) -> Module | None:
        """None: it is not loaded. One that is built in has no users."""
        ...

    async def load(self, name: str) -> None: ...

    async def unload(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class NetworkResult:
    """How a restart of the network ended; reachable: the API server, seen from this host."""

    reachable: bool
    rolled_back: bool
    output: str = ""


class Network(Protocol):
    async def manager(self) -> str:
        """The unit that configures the network here, "" if none of those that are known runs."""
        ...

    async def degraded(self) -> str:
        """What speaks against touching the network, "" for nothing."""
        ...

    async def begin(self, name: str, manager: str, within: float) -> None:
        """Restart `manager` from outside the agent, and undo it from there.

        Links, addresses and routes are saved first. When the API server is not reached within
        `within` seconds they are put back, whatever becomes of the agent. `name` is the request's.
        """
        ...

    async def result(self, name: str) -> NetworkResult | None:
        """None while it is under way; raises HostError if nothing of that name is known."""
        ...

    async def forget(self, name: str) -> None:
        """Take away what it needed; the result stays until the next restart begins."""
        ...


@dataclass(frozen=True, slots=True)
class Gpu:
    """users     processes that use it
    divided   in MIG mode
    answers   not fallen off the bus
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
        """The client certificate that the kubelet uses now; None: it has none of its own."""
        ...

    async def can_bootstrap(self) -> bool:
        """Whether the kubelet has what it needs to ask for a first certificate again."""
        ...

    async def set_aside(self) -> None: ...

    async def put_back(self) -> None:
        """Undo `set_aside`, unless there is a new one."""
        ...


@dataclass(frozen=True, slots=True)
class CommandResult:
    """code is negative when it was ended by that signal."""

    code: int
    output: str


class Scripts(Protocol):
    async def begin(
        self, name: str, program: bytes, args: Sequence[str], limit: float
    ) -> CommandResult:
        """Run exactly these bytes as a unit of its own, that the agent's end does not end.

        Raises TimeoutError when it was ended after `limit` seconds.
        """
        ...

    async def ended(self, name: str) -> CommandResult | None:
        """After an interruption: how it ended, until the next begins. None: it still runs.

        Raises HostError when nobody knows of it any more.
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
