"""A host in memory that implements the host ports, for the demo and for tests.

It carries out every request and can be made to fail. It passes the contract of the real ports
(tests/hosts/port_contract.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agent.host import HostError
from agent.host.containers import Container, Image, Sandbox
from agent.host.ports import (
    Certificate,
    CommandResult,
    Gpu,
    Module,
    NetworkResult,
    Ports,
    Process,
    TimeState,
)
from agent.host.storage import DiskSpace, HostMount, OldFile

GIB = 1024**3


@dataclass
class SimulatedProcesses:
    """The processes of a host.

    stubborn: process IDs that no signal ends, like processes that wait in the kernel.
    """

    processes: dict[int, Process] = field(default_factory=dict)
    stubborn: set[int] = field(default_factory=set)
    programs: set[str] = field(default_factory=set)
    sent: list[tuple[int, str]] = field(default_factory=list)

    async def find(self, pid: int) -> Process | None:
        return self.processes.get(pid)

    async def signal(self, process: Process, name: str) -> bool:
        current = self.processes.get(process.pid)
        if current is None or current.start_time != process.start_time:
            return False
        self.sent.append((process.pid, name))
        if process.pid not in self.stubborn:
            del self.processes[process.pid]
        return True

    async def runs(self, program: str) -> bool:
        return program in self.programs


@dataclass
class SimulatedDisks:
    """One disk; sizes are in bytes.

    leaks: whether removing files frees no space, as if another program filled the disk at once.
    """

    total: int = 100 * GIB
    free: int = 40 * GIB
    files: dict[str, list[OldFile]] = field(default_factory=dict)
    journal: int = 2 * GIB
    leaks: bool = False

    async def space(self, path: str) -> DiskSpace:
        return DiskSpace(self.total, self.free)

    async def removable(self, target: str) -> list[OldFile]:
        return sorted(self.files.get(target, ()), key=lambda file: file.modified)

    async def remove(self, file: OldFile) -> bool:
        for files in self.files.values():
            if file in files:
                files.remove(file)
                self.freed(file.size)
                return True
        return False

    async def vacuum_journal(self, keep: int) -> None:
        self.freed(max(0, self.journal - keep))
        self.journal = min(self.journal, keep)

    def freed(self, size: int) -> None:
        self.free += 0 if self.leaks else size


@dataclass
class SimulatedContainers:
    disks: SimulatedDisks
    images: list[Image] = field(default_factory=list)
    ended: list[Container] = field(default_factory=list)
    pods: list[Sandbox] = field(default_factory=list)
    stuck: bool = False

    async def folder(self) -> str:
        return "/var/lib/containerd"

    async def unused_images(self) -> list[Image]:
        return list(self.images)

    async def remove_image(self, image: Image) -> None:
        if image not in self.images:
            raise HostError(f"image {image.name}: not found")
        self.images.remove(image)
        self.disks.freed(image.size)

    async def exited(self) -> list[Container]:
        return list(self.ended)

    async def remove_container(self, container: Container) -> None:
        self.ended.remove(container)

    async def sandboxes(self) -> list[Sandbox]:
        return list(self.pods)

    async def remove_sandbox(self, sandbox: str) -> None:
        (target,) = [pod for pod in self.pods if pod.id == sandbox]
        if target.ready:
            raise HostError(f"sandbox {sandbox} is ready")
        if not self.stuck:
            self.pods.remove(target)


@dataclass
class SimulatedTime:
    """The time synchronisation of a host.

    offset: seconds by which the clock is off.
    known: whether the offset is known; `measure` makes it known if a source answers.
    sources: how many time sources answer.
    follows: whether the clock follows corrections. `measure` then corrects an offset below 1 s.
    """

    offset: float = 0.0
    known: bool = True
    sources: int = 4
    steps: int = 0
    follows: bool = True
    moved: float = 0.0

    async def moved_since_boot(self) -> float:
        return self.moved

    async def state(self) -> TimeState:
        offset = self.offset if self.known else None
        return TimeState("chrony.service", offset, self.known, self.sources)

    async def measure(self) -> None:
        self.known = self.known or self.sources > 0
        if self.follows and abs(self.offset) < 1:
            self.offset = 0.0

    async def step(self) -> None:
        self.steps += 1
        if self.follows:
            self.offset = 0.0


@dataclass
class SimulatedKernel:
    """The kernel of a host.

    installed: modules that can be loaded.
    deaf: whether setting a sysctl has no effect.
    """

    bytes: int = 64 * GIB
    sysctls: dict[str, str] = field(
        default_factory=lambda: {
            "fs.file-max": "1000000",
            "fs.inotify.max_user_watches": "65536",
            "kernel.pid_max": "32768",
            "net.core.somaxconn": "4096",
            "net.netfilter.nf_conntrack_max": "131072",
        }
    )
    modules: dict[str, Module] = field(default_factory=dict)
    installed: set[str] = field(default_factory=lambda: {"br_netfilter", "overlay", "vxlan"})
    deaf: bool = False

    async def memory(self) -> int:
        return self.bytes

    async def sysctl(self, name: str) -> str:
        if name not in self.sysctls:
            raise HostError(f"sysctl {name}: No such file or directory")
        return self.sysctls[name]

    async def set_sysctl(self, name: str, value: str) -> None:
        if not self.deaf:
            self.sysctls[name] = value

    async def module(self, name: str) -> Module | None:
        return self.modules.get(name)

    async def load(self, name: str) -> None:
        if name not in self.installed:
            raise HostError(f"modprobe: module {name} not found")
        self.modules.setdefault(name, Module(name, 0))

    async def unload(self, name: str) -> None:
        if self.modules[name].users:
            raise HostError(f"modprobe: module {name} is in use")
        del self.modules[name]


@dataclass
class SimulatedFilesystems:
    """The mounted filesystems of a host.

    refuses: mount points whose device refuses writes.
    """

    mounts: dict[str, HostMount] = field(
        default_factory=lambda: {"/": HostMount("/", "/dev/vda1", "ext4", False, False)}
    )
    damaged: dict[str, str] = field(default_factory=dict)
    refuses: set[str] = field(default_factory=set)

    async def mount(self, point: str) -> HostMount | None:
        return self.mounts.get(point)

    async def damage(self, mount: HostMount) -> str:
        return self.damaged.get(mount.point, "")

    async def remount_writable(self, mount: HostMount) -> None:
        self.mounts[mount.point] = replace(mount, read_only=False)

    async def remount_read_only(self, mount: HostMount) -> None:
        self.mounts[mount.point] = replace(mount, read_only=True)

    async def try_write(self, mount: HostMount) -> None:
        if mount.point in self.refuses or self.mounts[mount.point].read_only:
            raise HostError(f"a test write at {mount.point} failed: Read-only file system")


@dataclass
class SimulatedNetwork:
    """The network manager of a host.

    cut: whether the API server is unreachable after a restart.
    heals: whether it is reachable again after the change is undone.
    """

    unit: str = "systemd-networkd.service"
    bond: str = ""
    cut: bool = False
    heals: bool = True
    slow: bool = False
    restarts: list[str] = field(default_factory=list)
    results: dict[str, NetworkResult] = field(default_factory=dict)

    async def manager(self) -> str:
        return self.unit

    async def degraded(self) -> str:
        return self.bond

    async def begin(self, name: str, manager: str, within: float) -> None:
        self.restarts.append(manager)
        self.results[name] = NetworkResult(not self.cut or self.heals, self.cut)

    async def result(self, name: str) -> NetworkResult | None:
        if name not in self.results:
            raise HostError(f"no restart of the network is known as {name}")
        return None if self.slow else self.results[name]

    async def forget(self, name: str) -> None:
        return


@dataclass
class SimulatedGpus:
    known: list[Gpu] = field(default_factory=list)
    resets: list[str] = field(default_factory=list)
    lost: bool = False

    async def gpus(self) -> list[Gpu]:
        lost = self.lost and bool(self.resets)
        return [replace(gpu, answers=gpu.answers and not lost) for gpu in self.known]

    async def reset(self, uuids: Sequence[str]) -> None:
        self.resets += uuids


@dataclass
class SimulatedKubeletCertificate:
    current: Certificate | None = None
    bootstrap: bool = True
    aside: Certificate | None = None

    async def read(self) -> Certificate | None:
        return self.current

    async def can_bootstrap(self) -> bool:
        return self.bootstrap

    async def set_aside(self) -> None:
        self.aside, self.current = self.current, None

    async def put_back(self) -> None:
        self.current = self.current or self.aside


@dataclass
class SimulatedScripts:
    """Runs scripts.

    code: the exit code of each script; None for scripts that never end.
    says: the output of each script.
    """

    code: int | None = 0
    says: str = ""
    ran: list[tuple[bytes, tuple[str, ...]]] = field(default_factory=list)
    known: dict[str, CommandResult] = field(default_factory=dict)

    async def begin(
        self, name: str, program: bytes, args: Sequence[str], limit: float
    ) -> CommandResult:
        self.ran.append((program, tuple(args)))
        if self.code is None:
            raise TimeoutError
        self.known[name] = CommandResult(self.code, self.says)
        return self.known[name]

    async def ended(self, name: str) -> CommandResult | None:
        if name in self.known:
            return self.known[name]
        if any(self.ran) and self.code is None:
            return None
        raise HostError(f"no script is known as {name}")


@dataclass
class SimulatedHost:
    """All ports of one host in memory, each with fields that change its behaviour."""

    processes: SimulatedProcesses = field(default_factory=SimulatedProcesses)
    disks: SimulatedDisks = field(default_factory=SimulatedDisks)
    time: SimulatedTime = field(default_factory=SimulatedTime)
    kernel: SimulatedKernel = field(default_factory=SimulatedKernel)
    filesystems: SimulatedFilesystems = field(default_factory=SimulatedFilesystems)
    network: SimulatedNetwork = field(default_factory=SimulatedNetwork)
    gpus: SimulatedGpus = field(default_factory=SimulatedGpus)
    certificate: SimulatedKubeletCertificate = field(default_factory=SimulatedKubeletCertificate)
    scripts: SimulatedScripts = field(default_factory=SimulatedScripts)

    def __post_init__(self) -> None:
        self.containers = SimulatedContainers(self.disks)

    def ports(self) -> Ports:
        return Ports(
            processes=self.processes,
            disks=self.disks,
            containers=self.containers,
            time=self.time,
            kernel=self.kernel,
            filesystems=self.filesystems,
            network=self.network,
            gpus=self.gpus,
            kubelet_certificate=self.certificate,
            scripts=self.scripts,
        )
