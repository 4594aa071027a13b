"""Restores packages, files and units of a host as they were before a component was applied.

Changes by others stay where they cannot be distinguished from the agent's. A version that no
repository has is not restored; what is not restored is reported.
"""

from collections.abc import Mapping

from agent.components.before import Before
from agent.components.ports import (
    ComponentPorts,
    PackageManager,
    PackageSnapshot,
    PackageWanted,
    UnitSnapshot,
)
from agent.components.units import START_SECONDS, at_rest, running
from agent.host import Contraindicated, HostError, HostUnreachable

NAMED = ("enabled", "disabled")
"""Outputs of `systemctl is-enabled` that can be restored."""


async def packages(
    manager: PackageManager, before: Before, lock_wait: float, *, purge: bool
) -> str:
    """Restore the packages; return a description of what stays, "" for nothing. Raises
    HostError.
    """
    was = before.packages
    current = await manager.read_packages(list(was))
    loose = [name for name, package in current.items() if package.held and not was[name].held]
    if loose:
        await manager.hold(loose, on=False)
    gone = [name for name, package in current.items() if package.version and not was[name].version]
    if gone:
        await manager.remove(gone, lock_wait, purge=purge)
    stays = await _versions(manager, was, current, lock_wait)
    current = await manager.read_packages(list(was))
    to_hold = [
        name
        for name, package in current.items()
        if was[name].held and not package.held and package.version
    ]
    if to_hold:
        await manager.hold(to_hold, on=True)
    automatic = [name for name in before.automatic if current[name].version]
    if automatic:
        await manager.set_automatic(automatic)
    if before.along:
        await manager.remove_unneeded(before.along, lock_wait)
    return stays


async def _versions(
    manager: PackageManager,
    was: Mapping[str, PackageSnapshot],
    current: Mapping[str, PackageSnapshot],
    lock_wait: float,
) -> str:
    back = [
        PackageWanted(name, package.version)
        for name, package in was.items()
        if package.version and (current[name].version != package.version or current[name].broken)
    ]
    if not back:
        return ""
    try:
        await manager.stage(back, lock_wait)
        await manager.install(back, lock_wait)
    except (Contraindicated, HostUnreachable):
        raise
    except HostError as error:
        names = ", ".join(f"{package.name} {package.version}" for package in back)
        return f"packages that were here before are not to be had: {names}: {error}"
    return ""


async def files(ports: ComponentPorts, before: Before) -> bool:
    """Restore files that are missing now, remove the component's folders; return whether a file
    was written.
    """
    put = False
    for path, was in before.files.items():
        if was is not None and await ports.files.read(path) is None:
            await ports.files.write(path, was.content, was.mode, was.owner)
            put = True
    await ports.files.remove_empty(before.folders)
    return put


async def unit(ports: ComponentPorts, name: str, was: UnitSnapshot) -> None:
    """Restore a unit that existed before: masked, enabled and running. Raises HostError."""
    units, current = ports.units, await ports.units.read_unit(name)
    if at_rest(was) and current.loaded and not at_rest(current):
        await units.stop(name, START_SECONDS)
    if current.masked != was.masked:
        await units.set_masked(name, on=was.masked)
        current = await units.read_unit(name)
    if was.masked or not current.loaded:
        return
    if {current.enabled, was.enabled} == set(NAMED):
        await units.set_enabled(name, on=was.enabled == "enabled")
    if running(was) and not running(current):
        await units.start(name, START_SECONDS)
