"""Packages of apt or dnf, at exactly the versions that are written, and held there."""

from collections.abc import Collection, Mapping

from agent.components.ports import Installed, PackageFound, PackageManager, PackageWanted
from kubenode.runtime.components import wire


class PackageSource:
    """Implements agent.components.ports.ComponentFileSource.

    version    of the component
    lock_wait  seconds
    """

    def __init__(
        self, version: str, source: wire.Packages, manager: PackageManager, lock_wait: float
    ) -> None:
        self._version, self._manager, self._lock_wait = version, manager, lock_wait
        self._wanted = wanted_of(source)
        self._names = [one.name for one in source.packages]
        self._hold = source.hold

    async def found(self) -> Installed:
        found = await self._manager.found(self._names)
        return judged(self._version, self._wanted, found, hold=self._hold)

    async def stage(self) -> None:
        await self._manager.stage(self._wanted, self._lock_wait)

    async def install(self) -> None:
        """Nothing is asked of the package manager for what is there: it might restart services."""
        if not (await self.found()).exact:
            await self.stage()  # what was staged for long may be gone
            await self._manager.install(self._wanted, self._lock_wait)
        await self._set_hold()

    async def remove(self, keep: Collection[str], *, purge: bool, back: bool = False) -> None:
        """Data outside of packages is never theirs to take; `keep` asks for no purge."""
        found = await self._manager.found(self._names)
        there = [name for name in self._names if found[name].version]
        held = [name for name in there if found[name].held]
        if held:
            await self._manager.hold(held, on=False)
        await self._manager.remove(self._names, self._lock_wait, purge=purge and not keep)

    async def hold(self) -> None:
        await self._set_hold()

    async def _set_hold(self) -> None:
        """A hold that is not asked for here is somebody else's, and stays."""
        found = await self._manager.found(self._names)
        loose = [name for name in self._names if found[name].version and not found[name].held]
        if self._hold and loose:
            await self._manager.hold(loose, on=True)


def wanted_of(source: wire.Packages) -> list[PackageWanted]:
    """An epoch of 0 is not shown."""
    return [PackageWanted(one.name, one.version.removeprefix("0:")) for one in source.packages]


def judged(
    version: str,
    wanted: Collection[PackageWanted],
    found: Mapping[str, PackageFound],
    *,
    hold: bool,
) -> Installed:
    """What the found packages are, seen from those that are wanted."""
    broken = [name for name, one in found.items() if one.broken]
    exact = not broken and all(found[one.name].version == one.version for one in wanted)
    there = [one for one in found.values() if one.version]
    first = next((found[one.name].version for one in wanted if found[one.name].version), "")
    return Installed(
        version if exact else first,
        exact,
        held=not hold or all(one.held for one in there),
        broken=f"{', '.join(broken)}: not wholly installed" if broken else "",
    )
