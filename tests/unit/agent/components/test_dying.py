"""Invariant 8: killed, or cut from power, at any step: wholly old, wholly new, or Failed."""

import pytest
from support.component_world import ENDS, PACKAGE, UNIT, component
from support.lossy_disk import LossyDisk
from support.mortal_components import FOLDER, Killed, MortalWorld

from agent.components.records import FileRecords

OLD, NEW = ("2.1.3-1", b"pause = '3.10'"), ("2.1.4-1", b"pause = '3.11'")
MOST = 200


async def an_upgrade(**crash: bool) -> MortalWorld:
    world = MortalWorld()
    world.assign(component("2.1.3"))
    world.allow("containerd")
    await world.rounds(20, ENDS)
    assert world.state() == "Healthy" and world.host_is == OLD
    if crash:
        world.parts.crashing[UNIT] = {(PACKAGE, "2.1.4-1")}
    world.assign(component("2.1.4"), pause="3.11")
    world.fate.count = 0
    return world


async def killed_at(moment: int, after: bool, **crash: bool) -> MortalWorld | None:
    """The world after a kill at this moment and a new process; None when there is no such one."""
    world = await an_upgrade(**crash)
    world.fate.left, world.fate.after = moment, after
    try:
        await world.rounds(90, ENDS)
    except BaseExceptionGroup as group:
        assert group.subgroup(Killed) is not None, group
    except Killed:
        pass
    else:
        return None
    world.fate.left = -1
    await world.restart()
    await world.rounds(120, ENDS)
    return world


@pytest.mark.exhaustive
@pytest.mark.parametrize("after", [False, True])
async def test_invariant_08_killed_at_any_step_it_ends_wholly_new(after: bool) -> None:
    for moment in range(1, MOST):
        world = await killed_at(moment, after)
        if world is None:
            assert moment > 20, "few moments were met"
            return
        assert world.state() == "Healthy" and world.host_is == NEW, moment
        assert world.parts.units.units[UNIT].active == "active"
        assert world.starts() <= 4, moment
    raise AssertionError("no end")


@pytest.mark.exhaustive
async def test_invariant_08_killed_at_any_step_of_a_bad_version_it_ends_wholly_old() -> None:
    for moment in range(1, MOST):
        world = await killed_at(moment, True, crash=True)
        if world is None:
            return
        assert world.state() == "RolledBack" and world.host_is == OLD, moment
        assert world.parts.units.units[UNIT].active == "active"
    raise AssertionError("no end")


@pytest.mark.exhaustive
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
async def test_invariant_08_a_power_cut_at_any_step(share: float) -> None:
    """What the disk did not have to keep is lost, in one way or another; the host boots anew."""
    for moment in range(1, MOST):
        world = await an_upgrade()
        world.fate.left = moment
        try:
            await world.rounds(90, ENDS)
            return
        except (BaseExceptionGroup, Killed):
            world.fate.left = -1
        left = list(world.disk.after_power_cut())
        world.records = FileRecords(FOLDER, left[int(share * (len(left) - 1))])
        world.host.boot += 1
        await world.restart()
        await world.rounds(120, ENDS)
        assert world.state() == "Failed" or world.host_is == NEW, moment
        assert world.state() in ("Healthy", "Failed"), moment
    raise AssertionError("no end")


def test_a_garbled_record_is_not_believed() -> None:
    disk = LossyDisk()
    records = FileRecords(FOLDER, disk)
    disk.write(FOLDER / "runc.json", b'00000000 {"name":"runc","state":"Healthy"}')
    disk.write(FOLDER / "cni.json", b"")
    assert records.load() == {}
