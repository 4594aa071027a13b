"""Sysctls and kernel modules: /proc/sys, /sys/module and modprobe."""

from pathlib import Path

from agent.host import HostError
from agent.host.ports import Module
from agent.host.real.commands import Commands, HostCommand

SECONDS = 30.0


class RealKernel:
    """Implements agent.host.ports.Kernel.

    proc, sys: mount points of the host's procfs and sysfs
    """

    def __init__(self, commands: Commands, proc: str = "/proc", sys: str = "/sys") -> None:
        self._commands = commands
        self._proc, self._sys = Path(proc), Path(sys)

    async def memory(self) -> int:
        for line in _read(self._proc / "meminfo").splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) * 1024
        raise HostError("/proc/meminfo does not tell the memory")

    async def sysctl(self, name: str) -> str:
        return _read(self._path(name)).strip()

    async def set_sysctl(self, name: str, value: str) -> None:
        path = self._path(name)
        try:
            path.write_text(value, encoding="ascii")
        except OSError as error:
            raise HostError(f"sysctl {name}: {error.strerror}") from error

    async def module(self, name: str) -> Module | None:
        folder = self._sys / "module" / name
        if not folder.is_dir():
            return None
        if not (folder / "refcnt").exists():  # built in: it can neither be unloaded nor loaded
            return Module(name, 1, ("the kernel itself",))
        holders = tuple(sorted(path.name for path in (folder / "holders").iterdir()))
        return Module(name, int(_read(folder / "refcnt")), holders)

    async def load(self, name: str) -> None:
        await self._modprobe(name)

    async def unload(self, name: str) -> None:
        await self._modprobe("--remove", name)

    async def _modprobe(self, *arguments: str) -> None:
        await self._commands.checked(
            HostCommand(["modprobe", *arguments], SECONDS, ("CAP_SYS_MODULE",))
        )

    def _path(self, name: str) -> Path:
        return self._proc / "sys" / name.replace(".", "/")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}") from error
