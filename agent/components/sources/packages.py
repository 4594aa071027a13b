"""Packages of apt or dnf, at exactly the versions that are written, and held there."""

from collections.abc import Collection, Mapping

from agent.components.ports import Installed, PackageManager, PackageSnapshot, PackageWanted
from kubenode.runtime.components import wire


class PackageSource:
    """Implements agent.components.ports.ComponentFileSource.

    version    of the component
    lock_wait  seconds
    """

    def __init__(
        self, version: str, source: wire.WirePackages, manager: PackageManager, lock_wait: float
    ) -> None:
        self._version, self._manager, self._lock_wait = version, manager, lock_wait
        self._wanted = wanted_of(source)
        self._names = [package.name for package in source.packages]
        self._hold = source.hold

    async def read_installed(self) -> Installed:
        current = await self._manager.read_packages(self._names)
        return judged(self._version, self._wanted, current, hold=self._hold)

    async def stage(self) -> None:
        await self._manager.stage(self._wanted, self._lock_wait)

    async def install(self) -> None:
        """Nothing is asked of the package manager for what is there: it might restart services."""
        if not (await self.read_installed()).exact:
            await self.stage()  # what was staged for long may be gone
            await self._manager.install(self._wanted, self._lock_wait)
        await self._set_hold()

    async def remove(self, keep: Collection[str], *, purge: bool, back: bool = False) -> None:
        """Data outside of packages is never theirs to take; `keep` asks for no purge."""
        current = await self._manager.read_packages(self._names)
        there = [name for name in self._names if current[name].version]
        pinned = [name for name in there if current[name].held]
        if pinned:
            await self._manager.hold(pinned, on=False)
        await self._manager.remove(self._names, self._lock_wait, purge=purge and not keep)

    async def hold(self) -> None:
        await self._set_hold()

    async def _set_hold(self) -> None:
        """A hold that is not asked for here is somebody else's, and stays."""
        current = await self._manager.read_packages(self._names)
        loose = [name for name in self._names if current[name].version and not current[name].held]
        if self._hold and loose:
            await self._manager.hold(loose, on=True)


def wanted_of(source: wire.WirePackages) -> list[PackageWanted]:
    """An epoch of 0 is not shown."""
    return [
        PackageWanted(package.name, package.version.removeprefix("0:"))
        for package in source.packages
    ]


def judged(
    version: str,
    wanted: Collection[PackageWanted],
    current: Mapping[str, PackageSnapshot],
    *,
    hold: bool,
) -> Installed:
    """What the found packages are, seen from those that are wanted."""
    broken = [name for name, package in current.items() if package.broken]
    exact = not broken and all(
        current[package.name].version == package.version for package in wanted
    )
    there = [package for package in current.values() if package.version]
    first = next(
        (current[package.name].version for package in wanted if current[package.name].version), ""
    )
    return Installed(
        version if exact else first,
        exact,
        pinned=not hold or all(package.held for package in there),
        broken=f"{', '.join(broken)}: not wholly installed" if broken else "",
    )
