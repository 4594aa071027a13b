"""Sysctls and kernel modules: /proc/sys, /sys/module and modprobe."""

from agent.host import HostError
from agent.host.files import HostRoot
from agent.host.ports import Module
from agent.host.real.commands import Commands, HostCommand

SECONDS = 30.0


class RealKernel:
    """Implements agent.host.ports.Kernel.

    files: of the host; a Pod shares the host's network namespace and may write /proc/sys
    """

    def __init__(self, commands: Commands, files: HostRoot) -> None:
        self._commands, self._files = commands, files

    async def memory(self) -> int:
        for line in self._read("/proc/meminfo").splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) * 1024
        raise HostError("/proc/meminfo does not tell the memory")

    async def sysctl(self, name: str) -> str:
        return self._read(_path(name)).strip()

    async def set_sysctl(self, name: str, value: str) -> None:
        try:
            self._files.path(_path(name)).write_text(value, encoding="ascii")
        except OSError as error:
            raise HostError(f"sysctl {name}: {error.strerror}") from error

    async def module(self, name: str) -> Module | None:
        folder = f"/sys/module/{name}"
        if not self._files.is_dir(folder):
            return None
        # Built in: it can neither be unloaded nor loaded.
        if not self._files.exists(f"{folder}/refcnt"):
            return Module(name, 1, ("the kernel itself",))
        holders = tuple(sorted(self._files.list_names(f"{folder}/holders")))
        return Module(name, int(self._read(f"{folder}/refcnt")), holders)

    async def load(self, name: str) -> None:
        await self._modprobe(name)

    async def unload(self, name: str) -> None:
        await self._modprobe("--remove", name)

    async def _modprobe(self, *arguments: str) -> None:
        await self._commands.checked(
            HostCommand(["modprobe", *arguments], SECONDS, ("CAP_SYS_MODULE",))
        )

    def _read(self, path: str) -> str:
        try:
            return self._files.read_text(path)
        except OSError as error:
            raise HostError(f"{path}: {error.strerror}") from error


def _path(name: str) -> str:
    return f"/proc/sys/{name.replace('.', '/')}"
