"""Installs packages of apt or dnf at exact versions, and holds them."""

from collections.abc import Collection, Mapping

from agent.components.ports import Installed, PackageManager, PackageSnapshot, PackageWanted
from kubenode.runtime.components import wire


class PackageSource:
    """Implements agent.components.ports.ComponentFileSource with packages.

    version: of the component
    lock_wait: seconds to wait for the package manager's lock
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
        """Install if needed. An installed package is left alone: an install might restart
        services.
        """
        if not (await self.read_installed()).exact:
            await self.stage()  # the staged packages may be gone by now
            await self._manager.install(self._wanted, self._lock_wait)
        await self._set_hold()

    async def remove(self, keep: Collection[str], *, purge: bool, back: bool = False) -> None:
        """Remove the packages. Data outside of packages stays; with `keep` nothing is purged."""
        current = await self._manager.read_packages(self._names)
        there = [name for name in self._names if current[name].version]
        pinned = [name for name in there if current[name].held]
        if pinned:
            await self._manager.hold(pinned, on=False)
        await self._manager.remove(self._names, self._lock_wait, purge=purge and not keep)

    async def hold(self) -> None:
        await self._set_hold()

    async def _set_hold(self) -> None:
        """Hold the packages if wanted. A hold that is not wanted here belongs to others, and
        stays.
        """
        current = await self._manager.read_packages(self._names)
        loose = [name for name in self._names if current[name].version and not current[name].held]
        if self._hold and loose:
            await self._manager.hold(loose, on=True)


def wanted_of(source: wire.WirePackages) -> list[PackageWanted]:
    """Return the packages as a package manager writes them: without an epoch of 0."""
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
    """Compare the current packages with the wanted ones."""
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
