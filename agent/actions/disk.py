"""CleanDisk: frees disk space within a budget by removing what is unused or can be restored.

It never removes user data, only unused images, ended containers, rotated logs, journals and crash
dumps. It stops as soon as enough space is free. The free space, read again, proves success.
"""

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from agent.actions.repair import STANDS, Repair, params_of, ports_of
from agent.host.storage import DiskSpace
from agent.outcome import StepOutcome, done, failed
from agent.request import StepRequest
from kubenode.runtime.agentparams import quantity
from kubenode.runtime.duration import seconds

if TYPE_CHECKING:
    from agent.actions import Bench

LOGS, DUMPS = "/var/log", "/var"
_OF_RUNTIME = frozenset({"images", "exitedContainers"})
RESERVE_SECONDS = 2.0
"""No removal begins when less than this remains of the time limit."""
NOTICEABLE_BYTES = 64 * 1024 * 1024
"""A rise in free space that must be visible; a smaller one is lost among other writers."""
MOST_LISTED = 8
"""Number of removed files and images that the output names."""


class CleanDisk(Repair):
    name = "CleanDisk"

    def unfit(self, request: StepRequest) -> str:
        if why := super().unfit(request):
            return why
        if params_of(request)["target"] == "imagesInUse":
            return (
                "CleanDisk: an image in use cannot be removed while its containers run: move the"
                " pods first, then clean `images`"
            )
        return ""

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        params, ports = params_of(request), ports_of(bench)
        target = params["target"]
        path = DUMPS if target == "crashDumps" else LOGS
        if target in _OF_RUNTIME:
            path = await ports.containers.folder()
        space = await ports.disks.space(path)
        return {
            "target": target,
            "path": path,
            "free": str(space.free),
            "wanted": params.get("free", "20"),
        }

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        end = bench.clock.monotonic() + limit - RESERVE_SECONDS
        disks, target = ports_of(bench).disks, before["target"]
        wanted, most = float(before["wanted"]), quantity(params_of(request).get("most", "10Gi"))
        removed: list[str] = []
        freed, space = 0, await disks.space(before["path"])
        if space.free_percent >= wanted:
            return done(f"CleanDisk: {_describe_space(space, before)}: nothing had to go")
        async for name, size in self._remove(request, target, most, bench):
            removed.append(name)
            freed += size
            space = await disks.space(before["path"])
            if space.free_percent >= wanted or freed >= most or bench.clock.monotonic() >= end:
                break
        return _outcome(removed, freed, space, before)

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome | None:
        space = await ports_of(bench).disks.space(before["path"])
        if space.free_percent >= float(before["wanted"]):
            return done(f"CleanDisk: {_describe_space(space, before)}{STANDS}")
        return None

    async def _remove(
        self, request: StepRequest, target: str, most: int, bench: "Bench"
    ) -> AsyncIterator[tuple[str, int]]:
        """Remove files or images one by one; yield the name and the bytes of each."""
        params, ports = params_of(request), ports_of(bench)
        age = seconds(params.get("olderThan", "1h"))
        budget = most
        match target:
            case "images":
                for image in sorted(
                    await ports.containers.unused_images(), key=lambda i: i.size, reverse=True
                ):
                    if image.size <= budget:
                        await ports.containers.remove_image(image)
                        budget -= image.size
                        yield image.name, image.size
            case "exitedContainers":
                for container in await ports.containers.exited():
                    if (bench.clock.now() - container.ended).total_seconds() >= age:
                        await ports.containers.remove_container(container)
                        yield container.id, 0
            case "journal":
                await ports.disks.vacuum_journal(quantity(params.get("keep", "256Mi")))
                yield "journal", 0
            case _:
                for file in await ports.disks.removable(target):
                    old = (bench.clock.now() - file.modified).total_seconds() >= age
                    if old and file.size <= budget and await ports.disks.remove(file):
                        budget -= file.size
                        yield file.path, file.size


def _outcome(
    removed: list[str], freed: int, space: DiskSpace, before: Mapping[str, str]
) -> StepOutcome:
    summary = _describe_space(space, before)
    if not removed:
        return done(f"CleanDisk: nothing of {before['target']} may go; {summary}")
    more = f" and {len(removed) - MOST_LISTED} more" if len(removed) > MOST_LISTED else ""
    text = f"CleanDisk: removed {', '.join(removed[:MOST_LISTED])}{more}; {summary}"
    if freed >= NOTICEABLE_BYTES and space.free <= int(before["free"]):
        return failed(f"{text}: the free space did not rise, something fills it")
    return done(text)


def _describe_space(space: DiskSpace, before: Mapping[str, str]) -> str:
    change = space.free - int(before["free"])
    return (
        f"{before['path']} has {space.free_percent:.1f} % free, {before['wanted']} % are wanted"
        f" ({change:+d} bytes)"
    )
