"""A host that is let go is left as it was before components came; what cannot be is told."""

from typing import Any

from support.component_world import CONFIG, ENDS, PACKAGE, UNIT, ComponentWorld, component

from agent.components.ports import FileSnapshot, PackageSnapshot, UnitSnapshot
from simulation.hosts.components import SimulatedComponents

KEYS = "/etc/containerd/config.toml"
THEIRS = b"# by hand\n[debug]\nlevel = 'info'  # less\n"


def mine(version: str, **spec: Any) -> dict[str, Any]:
    """With a drop-in, and a file of which only a key is ours."""
    content = {"inline": "[debug]\nlevel = 'warn'\n[grpc]\nuid = 0\n"}
    made = component(version)["spec"]
    files = [*made["files"], {"path": KEYS, "content": content, "ownership": "Keys"}]
    units = [{"name": UNIT, "dropIns": [{"name": "a.conf", "content": "[Unit]\n"}]}]
    return component(version, files=files, units=units, **spec)


def picture(parts: SimulatedComponents) -> dict[str, Any]:
    """Of the host, as somebody would compare it."""
    units = {
        name: (unit.enabled, unit.active) for name, unit in parts.units.units.items() if unit.loaded
    }
    packages = parts.packages
    return {
        "files": dict(parts.files.files),
        "packages": dict(packages.packages),
        "unasked": packages.unasked & packages.packages.keys(),
        "units": units,
    }


async def a_host_with_an_older_one() -> ComponentWorld:
    world = ComponentWorld()
    world.parts.packages.packages |= {
        PACKAGE: PackageSnapshot("1.7.0-1"),
        "libold": PackageSnapshot("1"),
    }
    world.parts.packages.unasked |= {PACKAGE, "libold"}
    for version in ("2.1.3-1", "2.1.4-1"):
        world.parts.packages.needs[PACKAGE, version] = ("libnew",)
    world.parts.units.run(UNIT)
    world.parts.files.edit(CONFIG, b"pause = '3.1'", "0640")
    world.parts.files.edit(KEYS, THEIRS)
    world.allow("containerd")
    return world


async def applied(world: ComponentWorld, *versions: str) -> None:
    for version in versions:
        world.assign(mine(version))
        await world.rounds(90, ENDS)
        assert world.state() == "Healthy", world.record().message


async def let_go(world: ComponentWorld, version: str) -> None:
    world.leaving = True
    world.allow("containerd")
    world.assign(mine(version), state="Absent")
    await world.rounds(90, {"Absent", "Failed"})


async def test_a_host_is_left_as_it_was_found_after_two_versions_of_ours() -> None:
    world = await a_host_with_an_older_one()
    before = picture(world.parts)
    await applied(world, "2.1.3", "2.1.4")
    assert world.parts.packages.packages[PACKAGE] == PackageSnapshot("2.1.4-1", held=True)
    assert "libnew" in world.parts.packages.packages
    await let_go(world, "2.1.4")
    assert world.state() == "Absent" and world.record().message == ""
    assert picture(world.parts) == before


async def test_keys_and_files_that_others_changed_meanwhile_are_not_lost() -> None:
    world = await a_host_with_an_older_one()
    await applied(world, "2.1.3")
    there = world.parts.files.files[KEYS].content
    world.parts.files.edit(KEYS, there + b"[metrics]\naddress = 'x'\n")
    await let_go(world, "2.1.3")
    left = world.parts.files.files[KEYS].content.decode()
    assert "[metrics]\naddress = 'x'" in left and "uid" not in left
    assert 'level = "info"' in left or "level = 'info'" in left


async def test_what_was_not_there_goes_with_what_came_along_for_it() -> None:
    world = ComponentWorld()
    for version in ("2.1.3-1", "2.1.4-1"):
        world.parts.packages.needs[PACKAGE, version] = ("libnew",)
    world.allow("containerd")
    await applied(world, "2.1.3")
    await let_go(world, "2.1.3")
    assert world.state() == "Absent"
    assert picture(world.parts) == {"files": {}, "packages": {}, "unasked": set(), "units": {}}


async def test_what_was_there_just_so_is_not_touched_at_all() -> None:
    world = ComponentWorld()
    world.parts.packages.packages[PACKAGE] = PackageSnapshot("2.1.3-1", held=True)
    world.parts.units.run(UNIT)
    world.parts.files.edit(CONFIG, b"pause = '3.10'")
    before, starts = picture(world.parts), world.starts()
    world.assign(component("2.1.3"))
    await world.rounds(60, ENDS)
    world.leaving = True
    world.assign(component("2.1.3"), state="Absent")
    await world.rounds(60, {"Absent", "Failed"})
    assert world.state() == "Absent"
    assert picture(world.parts) == before and world.starts() == starts


async def test_a_version_that_nobody_has_any_more_stays_and_is_told() -> None:
    world = await a_host_with_an_older_one()
    await applied(world, "2.1.3")
    world.parts.packages.missing.add((PACKAGE, "1.7.0-1"))
    await let_go(world, "2.1.3")
    record = world.record()
    assert (record.state, record.reason) == ("Absent", "Stays")
    assert f"{PACKAGE} 1.7.0-1" in record.message
    assert world.parts.packages.packages[PACKAGE] == PackageSnapshot("2.1.3-1")
    assert world.parts.files.files[CONFIG] == FileSnapshot(b"pause = '3.1'", "0640", "root:root")


async def test_a_component_that_shall_be_absent_is_not_put_back() -> None:
    world = await a_host_with_an_older_one()
    await applied(world, "2.1.3")
    world.assign(mine("2.1.3"), state="Absent")
    await world.rounds(60, {"Absent", "Failed"})
    assert PACKAGE not in world.parts.packages.packages
    assert CONFIG not in world.parts.files.files


async def test_the_agent_never_ends_itself_and_goes_with_the_export() -> None:
    world = ComponentWorld()
    package = {"name": "kubenode-agent", "version": "1.0-1"}
    made = component("1.0", source={"type": "apt", "apt": {"packages": [package]}})
    world.parts.packages.packages["kubenode-agent"] = PackageSnapshot("1.0-1", held=True)
    world.parts.units.run(UNIT)
    world.allow("containerd")
    world.assign(made)
    await world.rounds(60, ENDS)
    world.assign(made, state="Absent")
    await world.rounds(60, {"Absent", "Blocked", "Failed"})
    assert (world.state(), world.record().reason) == ("Blocked", "AgentItself")
    world.leaving = True
    await world.rounds(60, {"Absent", "Failed"})
    assert world.state() == "Absent" and "kubenode-agent" in world.parts.packages.packages
    assert world.parts.units.units[UNIT].active == "active"


async def test_a_unit_that_was_masked_is_masked_again() -> None:
    world = await a_host_with_an_older_one()
    world.parts.units.units[UNIT] = UnitSnapshot(True, "masked", "inactive")
    before = picture(world.parts)
    await applied(world, "2.1.3")
    await let_go(world, "2.1.3")
    assert picture(world.parts) == before


async def test_killed_between_any_two_moves_it_ends_as_it_was_found() -> None:
    for rounds in range(1, 12):
        world = await a_host_with_an_older_one()
        before = picture(world.parts)
        await applied(world, "2.1.3")
        acts, real = 0, world.parts.packages.read_packages

        async def found(names: Any) -> Any:
            nonlocal acts
            acts += 1
            if acts == rounds:  # noqa: B023 - the last world's alone
                raise KilledHere
            return await real(names)  # noqa: B023

        world.parts.packages.read_packages = found  # type: ignore[method-assign]
        try:
            await let_go(world, "2.1.3")
        except (KilledHere, BaseExceptionGroup):
            await world.restart()
            await world.rounds(90, {"Absent", "Failed"})
        assert world.state() == "Absent" and picture(world.parts) == before, rounds


class KilledHere(BaseException):
    """Nothing may catch it."""
