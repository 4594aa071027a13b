"""Mounts of the host, read and changed in its mount namespace, which the agent is not in."""

import os
import re

from agent.host import HostError
from agent.host.files import HostRoot
from agent.host.real.commands import Commands, HostCommand
from agent.host.storage import HostMount

READ_SECONDS = 10.0
MOUNT_SECONDS = 30.0
READ_ONLY = frozenset({"ro", "emergency_ro", "shutdown"})
"""Options of a file system that takes no writes. Since Linux 6.14, ext4 shows one beside `rw`."""
_STATE = re.compile(r"^Filesystem state:\s+(.+)$", re.MULTILINE)


class RealFilesystems:
    """Implements agent.host.ports.Filesystems.

    files: of the host; the mounts are those of process 1
    """

    def __init__(self, commands: Commands, files: HostRoot) -> None:
        self._commands, self._files = commands, files

    async def mount(self, point: str) -> HostMount | None:
        table = self._mounts()
        fstab = await self._commands.checked(HostCommand(["cat", "/etc/fstab"], READ_SECONDS))
        return mount_of(point, table, fstab)

    def _mounts(self) -> str:
        try:
            return self._files.read_text("/proc/1/mountinfo")
        except OSError as error:
            raise HostError(f"mounts of the host: {error.strerror}") from error

    async def damage(self, mount: HostMount) -> str:
        argv = ["dd", f"if={mount.source}", "of=/dev/null", "bs=4096", "count=1", "iflag=direct"]
        try:
            await self._commands.checked(HostCommand(argv, READ_SECONDS))
        except HostError as error:
            return f"its device does not answer ({error})"
        if not mount.type.startswith("ext"):
            return ""
        if (error_count := self._errors(mount)) != "0":
            return f"the kernel has counted {error_count} errors on it"
        try:
            output = await self._commands.checked(
                HostCommand(["dumpe2fs", "-h", mount.source], READ_SECONDS)
            )
        except HostError as error:
            return f"its state cannot be read ({error})"
        state = _STATE.search(output)
        return "" if state and state[1] == "clean" else f"its state is {state and state[1]}"

    def _errors(self, mount: HostMount) -> str:
        number = device_of(mount.point, self._mounts())
        device = os.path.realpath(self._files.path(f"/sys/dev/block/{number}"))
        path = f"/sys/fs/ext4/{os.path.basename(device)}/errors_count"
        try:
            return self._files.read_text(path).strip()
        except OSError as error:
            return f"an unknown number of ({path}: {error.strerror})"

    async def remount_writable(self, mount: HostMount) -> None:
        await self._remount(mount, "rw")

    async def remount_read_only(self, mount: HostMount) -> None:
        await self._remount(mount, "ro")

    async def _remount(self, mount: HostMount, how: str) -> None:
        argv = ["mount", "-o", f"remount,{how}", mount.point]
        await self._commands.checked(HostCommand(argv, MOUNT_SECONDS, ("CAP_SYS_ADMIN",)))

    async def try_write(self, mount: HostMount) -> None:
        path = os.path.join(mount.point, f".kubenode-{os.urandom(8).hex()}")
        write = ["dd", "if=/dev/zero", f"of={path}", "bs=512", "count=1", "conv=excl,fsync"]
        rights = ("CAP_DAC_OVERRIDE",)
        try:
            await self._commands.checked(HostCommand(write, READ_SECONDS, rights))
        except HostError as error:
            raise HostError(f"a test write at {mount.point} failed: {error}") from error
        finally:
            await self._commands.run(HostCommand(["rm", "-f", path], READ_SECONDS, rights))


def mount_of(point: str, mountinfo: str, fstab: str) -> HostMount | None:
    """Return the topmost mount at exactly `point`, from the kernel's table and fstab."""
    mount = None
    for line in mountinfo.splitlines():
        head, _, right = line.partition(" - ")
        fields, (kind, source, options) = head.split(), right.split()[:3]
        if _plain(fields[4]) == point:
            here = "ro" in fields[5].split(",")
            read_only = here or bool(READ_ONLY & set(options.split(",")))
            meant = _meant_read_only(point, fstab)
            # Without an fstab entry: the kernel sets the file system read-only, people the mount.
            meant_so = here if meant is None else meant
            mount = HostMount(point, _plain(source), kind, read_only, read_only and meant_so)
    return mount


def device_of(point: str, mountinfo: str) -> str:
    """Return MAJOR:MINOR of the topmost mount at `point`; "" if there is none."""
    fields = [line.split() for line in mountinfo.splitlines()]
    return next((f[2] for f in reversed(fields) if _plain(f[4]) == point), "")


def _meant_read_only(point: str, fstab: str) -> bool | None:
    """Whether fstab mounts the path read-only; None if fstab has no entry for it."""
    for line in fstab.splitlines():
        fields = line.split()
        if len(fields) >= 4 and not line.startswith("#") and _plain(fields[1]) == point:
            return "ro" in fields[3].split(",")
    return None


def _plain(text: str) -> str:
    """Decode octal escapes: both tables write blanks and backslashes as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
