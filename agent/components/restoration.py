"""Gives a host back as it was before a component came: packages, files, units; no more than that.

What others changed in the meantime stays where it cannot be told apart from ours: a version that
nobody has any more is not made up, and what stays is told.
"""

from collections.abc import Mapping

from agent.components.before import Before
from agent.components.ports import (
    ComponentPorts,
    PackageFound,
    PackageManager,
    PackageWanted,
    UnitFound,
)
from agent.components.units import START_SECONDS, at_rest, running
from agent.host import Contraindicated, HostError, HostUnreachable

NAMED = ("enabled", "disabled")
"""Of what `systemctl is-enabled` says, what can be brought about."""


async def packages(
    manager: PackageManager, before: Before, lock_wait: float, *, purge: bool
) -> str:
    """What stays, "" for nothing. Raises HostError."""
    was = before.packages
    found = await manager.found(list(was))
    loose = [name for name, one in found.items() if one.held and not was[name].held]
    if loose:
        await manager.hold(loose, on=False)
    gone = [name for name, one in found.items() if one.version and not was[name].version]
    if gone:
        await manager.remove(gone, lock_wait, purge=purge)
    stays = await _versions(manager, was, found, lock_wait)
    found = await manager.found(list(was))
    held = [name for name, one in found.items() if was[name].held and not one.held and one.version]
    if held:
        await manager.hold(held, on=True)
    automatic = [name for name in before.automatic if found[name].version]
    if automatic:
        await manager.set_automatic(automatic)
    if before.along:
        await manager.remove_unneeded(before.along, lock_wait)
    return stays


async def _versions(
    manager: PackageManager,
    was: Mapping[str, PackageFound],
    found: Mapping[str, PackageFound],
    lock_wait: float,
) -> str:
    back = [
        PackageWanted(name, one.version)
        for name, one in was.items()
        if one.version and (found[name].version != one.version or found[name].broken)
    ]
    if not back:
        return ""
    try:
        await manager.stage(back, lock_wait)
        await manager.install(back, lock_wait)
    except (Contraindicated, HostUnreachable):
        raise
    except HostError as error:
        names = ", ".join(f"{one.name} {one.version}" for one in back)
        return f"packages that were here before are not to be had: {names}: {error}"
    return ""


async def files(ports: ComponentPorts, before: Before) -> bool:
    """Files that a package took along, or that are ours no more. Whether any was put back."""
    put = False
    for path, was in before.files.items():
        if was is not None and await ports.files.read(path) is None:
            await ports.files.write(path, was.content, was.mode, was.owner)
            put = True
    await ports.files.remove_empty(before.folders)
    return put


async def unit(ports: ComponentPorts, name: str, was: UnitFound) -> None:
    """One that was there before: masked, enabled and running as it was. Raises HostError."""
    units, found = ports.units, await ports.units.found(name)
    if at_rest(was) and found.loaded and not at_rest(found):
        await units.stop(name, START_SECONDS)
    if found.masked != was.masked:
        await units.set_masked(name, on=was.masked)
        found = await units.found(name)
    if was.masked or not found.loaded:
        return
    if {found.enabled, was.enabled} == set(NAMED):
        await units.set_enabled(name, on=was.enabled == "enabled")
    if running(was) and not running(found):
        await units.start(name, START_SECONDS)
