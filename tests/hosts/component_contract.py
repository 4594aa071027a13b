"""What the ports of components hold to, simulated or real."""

from collections.abc import Awaitable
from dataclasses import dataclass

from agent.components.ports import Artefact, ComponentPorts, FileSnapshot, PackageWanted
from agent.host import HostError

FOLDER = "/etc/contract"
DEST = "/opt/contract"
LOCK_WAIT = 30.0


@dataclass(frozen=True)
class Given:
    """A package in two versions with a unit of its name, and tarballs to replace each other.

    manager  of the package: apt or dnf
    """

    package: str
    versions: tuple[str, str]
    tarballs: tuple[tuple[str, str], ...] = ()
    manager: str = "apt"


async def refused(asked: Awaitable[object]) -> bool:
    try:
        await asked
    except HostError:
        return True
    return False


async def contract(ports: ComponentPorts, given: Given) -> list[str]:
    """Names of what does not hold."""
    held = {
        **await _files(ports),
        **await _packages(ports, given),
        **await _trees(ports, given),
        **await _programs(ports),
    }
    return [what for what, holds in held.items() if not holds]


async def _files(ports: ComponentPorts) -> dict[str, bool]:
    files, path = ports.files, f"{FOLDER}/deep/a.conf"
    held = {"a file that is not there is none": await files.read(path) is None}
    await files.write(path, b"one", "0640", "root:root")
    held["a file is written"] = await files.read(path) == FileSnapshot(b"one", "0640", "root:root")
    await files.write(path, b"two\x00", "0600", "root:root")
    found = await files.read(path)
    held["a file is replaced"] = found == FileSnapshot(b"two\x00", "0600", "root:root")
    await files.remove(path)
    await files.remove(path)
    held["a file is removed, once and again"] = await files.read(path) is None
    return held


async def _packages(ports: ComponentPorts, given: Given) -> dict[str, bool]:
    manager, name, (old, new) = ports.packages[given.manager], given.package, given.versions
    unit = f"{name}.service"

    async def version() -> str:
        return (await manager.read_packages([name]))[name].version

    held = {"an unknown package is not there": await version() == ""}
    held["a version that nobody has is told"] = await refused(
        manager.stage([PackageWanted(name, "99-1")], LOCK_WAIT)
    )
    await manager.stage([PackageWanted(name, new)], LOCK_WAIT)
    held["what is staged is not installed"] = await version() == ""
    for wanted in (old, new, old):
        await manager.install([PackageWanted(name, wanted)], LOCK_WAIT)
        held[f"version {wanted} is installed"] = await version() == wanted
    held["its unit runs"] = (await ports.units.read_unit(unit)).active == "active"
    await manager.hold([name], on=True)
    held["it is held"] = (await manager.read_packages([name]))[name].held
    await manager.install([PackageWanted(name, new)], LOCK_WAIT)
    await manager.hold([name], on=True)
    held["our own hold is not in our way"] = await version() == new
    held["what is held is what is there"] = (await manager.read_packages([name]))[name].held
    held |= await _units(ports, unit)
    await manager.hold([name], on=False)
    held["it is not held any more"] = not (await manager.read_packages([name]))[name].held
    await manager.remove([name], LOCK_WAIT, purge=True)
    await manager.remove([name], LOCK_WAIT, purge=True)
    held["it is removed, once and again"] = await version() == ""
    held["its unit is gone"] = not (await ports.units.read_unit(unit)).loaded
    return held


async def _units(ports: ComponentPorts, unit: str) -> dict[str, bool]:
    units = ports.units
    first = (await units.read_unit(unit)).invocation
    await units.restart(unit, 30)
    again = await units.read_unit(unit)
    held = {"a restart is another invocation": again.invocation not in ("", first)}
    await units.stop(unit, 30)
    held["it is stopped"] = (await units.read_unit(unit)).active == "inactive"
    await units.set_masked(unit, on=True)
    held["it is masked"] = (await units.read_unit(unit)).masked
    held["what is masked is not started"] = await refused(units.start(unit, 30))
    await units.set_masked(unit, on=False)
    held["it is masked no more"] = not (await units.read_unit(unit)).masked
    for on, word in ((True, "enabled"), (False, "disabled")):
        await units.set_enabled(unit, on=on)
        held[f"it is {word}"] = (await units.read_unit(unit)).enabled == word
    await units.start(unit, 30)
    held["it is started"] = (await units.read_unit(unit)).active == "active"
    held["an unknown unit is not loaded"] = not (await units.read_unit("no-such.service")).loaded
    held["an unknown unit is not started"] = await refused(units.start("no-such.service", 30))
    return held


async def _trees(ports: ComponentPorts, given: Given) -> dict[str, bool]:
    trees = ports.trees
    held = {"nothing lies at a new place": (await trees.read_tree(DEST)).digest == ""}
    for source, digest in given.tarballs:
        artefact = Artefact(source, digest, DEST)
        await trees.stage(artefact)
        held[f"{source} is only staged"] = (await trees.read_tree(DEST)).digest != digest
        await trees.install(artefact)
        found = await trees.read_tree(DEST)
        held[f"{source} is in place"] = (found.digest, found.changed) == (digest, ())
    await trees.remove(DEST, (), back=False)
    await trees.remove(DEST, (), back=False)
    held["nothing is left of it"] = (await trees.read_tree(DEST)).digest == ""
    return held


async def _programs(ports: ComponentPorts) -> dict[str, bool]:
    ran = await ports.runner.run(["/bin/true"], 10, "contract")
    return {"a program ends well": ran.code == 0}
