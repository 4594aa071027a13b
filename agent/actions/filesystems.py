"""RemountFilesystem: makes a sound file system that became read-only writable again.

The kernel makes a file system read-only to protect it. So it stays read-only if it recorded errors
or if its device does not answer: its data are at risk then, and it needs a file system check or
another disk. The action does not check or repair the file system, which would have to be unmounted.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.actions.repair import STANDS, Repair, params_of, ports_of
from agent.host import Contraindicated, HostError
from agent.host.storage import HostMount
from agent.outcome import StepOutcome, done, failed
from agent.request import StepRequest

if TYPE_CHECKING:
    from agent.actions import Bench

TYPES = ("ext3", "ext4", "xfs")
"""File system types that tell whether they recorded errors."""


class RemountFilesystem(Repair):
    name = "RemountFilesystem"

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        point = params_of(request)["mountPoint"]
        if point not in bench.allowed.mount_points:
            listed = ", ".join(bench.allowed.mount_points) or "nothing"
            raise Contraindicated(
                f"RemountFilesystem: {point} is not in repairs.mount_points of the agent's"
                f" configuration, which has {listed}"
            )
        mount = await self._mount(point, bench)
        if not mount.read_only:
            return {"point": point, "writable": "yes"}
        if mount.meant_so:
            raise Contraindicated(f"RemountFilesystem: {point} is read-only by configuration")
        if mount.type not in TYPES:
            raise Contraindicated(
                f"RemountFilesystem: {point} is {mount.type}, and only of {', '.join(TYPES)} can"
                " be told whether they are clean"
            )
        if damage := await ports_of(bench).filesystems.damage(mount):
            raise Contraindicated(
                f"RemountFilesystem: {point} ({mount.source}): {damage}; it stays read-only, as"
                " its data are at risk"
            )
        return {"point": point, "writable": "no"}

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        filesystems = ports_of(bench).filesystems
        mount = await self._mount(before["point"], bench)
        if before["writable"] == "no":
            await filesystems.remount_writable(mount)
        try:
            await filesystems.try_write(mount)
        except HostError as error:
            if before["writable"] == "yes":
                return failed(f"RemountFilesystem: {mount.point} is mounted writable, but {error}")
            await filesystems.remount_read_only(mount)
            return failed(f"RemountFilesystem: {error}; {mount.point} is read-only again")
        return done(f"RemountFilesystem: {mount.point} took a write and flushed it")

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome | None:
        if (await self._mount(before["point"], bench)).read_only:
            return None
        return done(f"RemountFilesystem: {before['point']} is writable{STANDS}")

    async def _mount(self, point: str, bench: "Bench") -> HostMount:
        mount = await ports_of(bench).filesystems.mount(point)
        if mount is None:
            raise Contraindicated(f"RemountFilesystem: nothing is mounted at {point}")
        return mount
