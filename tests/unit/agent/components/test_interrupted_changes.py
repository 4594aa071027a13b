"""A change that a process finds in its middle goes on under a permit that is valid then, or waits.

Every write of a change at which the process can die, and everything that can be true of the permit
when the next process starts.
"""

from datetime import timedelta

import pytest
from support.component_world import ENDS, UNIT, component
from support.mortal_components import Killed, MortalWorld

from agent.components.model import MOVING, ComponentApplyState

MOST = 200
HARMLESS = {"stage"}
LATE = timedelta(hours=72)


async def a_change(class_: str) -> MortalWorld:
    world = MortalWorld()
    world.assign(component("2.1.3"))
    await world.rounds(20, ENDS)
    assert world.state() == "Healthy"
    disruption = {"install": "None", "patch": class_}
    world.assign(component("2.1.4", disruption=disruption), pause="3.11")
    world.allow("containerd")
    return world


async def killed_at(moment: int, after: bool, class_: str) -> MortalWorld | None:
    """The world after the agent died at this moment; None when there is no such moment."""
    world = await a_change(class_)
    world.fate.left, world.fate.after = moment, after
    try:
        await world.rounds(90, ENDS)
    except (BaseExceptionGroup, Killed):
        world.fate.left = -1
        world.acts.clear()
        return world
    return None


def take_the_permit(world: MortalWorld, how: str) -> None:
    """What is true of the permit when the agent starts again, 72 hours later."""
    world.clock.step(LATE)
    match how:
        case "gone":
            world.permit = None
        case "of another component":
            world.allow("runc")
        case "of a milder class":
            world.allow("containerd", most="Reload")
        case "unreadable":
            world.allow("containerd")  # as an old watch tells
            world.away = True
        case "in the watch alone":
            world.allow("containerd")
            world.gone = True
        case "beside a job's permit":
            world.allow("containerd")
            world.other_permit = "job x holds the node under permit p-2"
        case _:
            assert how == "expired"


WITHOUT = (
    *("expired", "gone", "of another component", "of a milder class"),
    *("unreadable", "in the watch alone", "beside a job's permit"),
)


async def goes_on_for(world: MortalWorld, seconds: float) -> None:
    await world.rounds(seconds, ENDS)
    if world.host.reboots and world.state() == "Applying":
        world.host.boot += 1
        await world.restart()
        await world.rounds(seconds, ENDS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("class_, after", [("Restart", False), ("Drain", True), ("Reboot", True)])
@pytest.mark.parametrize("how", WITHOUT)
async def test_a_late_agent_does_nothing_in_the_middle_of_a_change_without_a_live_permit(
    class_: str, how: str, after: bool
) -> None:
    for moment in range(1, MOST):
        world = await killed_at(moment, after, class_)
        if world is None:
            assert moment > 15, "few moments were met"
            return
        take_the_permit(world, how)
        await world.restart()
        middle = world.record().state in MOVING
        await world.rounds(60)
        # A change that is not begun yet begins by the watch, and only its first act is checked.
        if middle or how != "unreadable":
            assert set(world.acts) <= HARMLESS, (moment, how, world.acts)
        world.away = world.gone = False
        world.other_permit = ""
        world.allow("containerd")
        await goes_on_for(world, 120)
        assert world.state() == "Healthy" and world.version == "2.1.4-1", (moment, how)
        assert world.parts.units.units[UNIT].active == "active"
    raise AssertionError("no end")


async def test_a_late_agent_asks_for_leave_again_when_its_permit_is_gone() -> None:
    world = await killed_in(ComponentApplyState.APPLYING, "Restart")
    world.permit = None
    world.clock.step(LATE)
    await world.restart()
    await world.rounds(60)
    status = world.status()
    assert (status.state, status.needs, status.reason) == ("Applying", "Restart", "Interrupted")
    assert world.acts == []


async def test_a_late_agent_does_not_reboot_its_host_when_its_permit_is_gone() -> None:
    world = await killed_in(ComponentApplyState.APPLYING, "Reboot", at="reboot")
    world.permit = None
    world.clock.step(LATE)
    await world.restart()
    await world.rounds(600)
    assert world.host.reboots == 0
    assert (world.status().needs, world.status().reason) == ("Reboot", "Interrupted")
    world.allow("containerd")
    await goes_on_for(world, 60)
    assert (world.host.reboots, world.state()) == (1, "Healthy")


async def test_a_host_that_booted_meanwhile_needs_no_permit_to_end_its_change() -> None:
    world = await killed_in(ComponentApplyState.APPLYING, "Reboot", at="reboot")
    world.permit = None
    world.host.boot += 1
    await world.restart()
    await world.rounds(60, ENDS)
    assert (world.host.reboots, world.state()) == (0, "Healthy")


async def test_an_interrupted_change_gives_way_to_the_revision_that_is_assigned_now() -> None:
    world = await killed_in(ComponentApplyState.APPLYING, "Restart")
    world.permit = None
    await world.restart()
    await world.rounds(10)
    revision = world.assign(component("2.1.5"), pause="3.12")
    await world.rounds(30)
    assert (world.status().revision, world.state()) == (revision, "Staged")
    assert world.acts.count("install") == 0
    world.allow("containerd")
    await world.rounds(60, ENDS)
    assert world.state() == "Healthy" and world.version == "2.1.5-1"


async def test_an_interrupted_change_that_is_assigned_no_more_is_forgotten() -> None:
    world = await killed_in(ComponentApplyState.APPLYING, "Restart")
    world.permit = None
    await world.restart()
    await world.rounds(10)
    world.assigned.clear()
    await world.rounds(10)
    assert world.records.load() == {} and world.acts == []


async def test_an_interruption_counts_no_process_that_only_waited() -> None:
    world = await killed_in(ComponentApplyState.APPLYING, "Restart")
    world.permit = None
    for _ in range(6):
        await world.restart()
        await world.rounds(10)
    assert world.record().tries == 1
    world.allow("containerd")
    await world.rounds(60, ENDS)
    assert world.state() == "Healthy" and world.version == "2.1.4-1"


async def test_a_change_goes_on_while_its_permit_is_renewed() -> None:
    world = await a_change("Restart")
    world.allow("containerd", seconds=5, renewed=900)
    world.fate.left, world.fate.after = 30, True
    with pytest.raises((BaseExceptionGroup, Killed)):
        await world.rounds(90, ENDS)
    world.fate.left = -1
    world.clock.step(timedelta(minutes=10))
    await world.restart()
    await world.rounds(60, ENDS)
    assert world.state() == "Healthy" and world.version == "2.1.4-1"


async def test_a_change_ends_though_it_takes_the_api_server_away() -> None:
    """As on the only control-plane node: the permit that this process read lasts on."""
    world = await a_change("Restart")
    install = world.parts.packages.install

    async def takes_it_away(*args: object, **more: object) -> None:
        await install(*args, **more)  # type: ignore[arg-type]
        world.away = True

    world.parts.packages.install = takes_it_away  # type: ignore[method-assign]
    await world.rounds(60, ENDS)
    assert world.state() == "Healthy" and world.version == "2.1.4-1"


async def test_a_change_stands_still_when_its_permit_ends_while_the_api_server_is_away() -> None:
    world = await a_change("Restart")
    world.allow("containerd", seconds=30)
    install = world.parts.packages.install

    async def takes_it_away(*args: object, **more: object) -> None:
        await install(*args, **more)  # type: ignore[arg-type]
        world.away = True
        world.clock.step(timedelta(seconds=31))

    world.parts.packages.install = takes_it_away  # type: ignore[method-assign]
    await world.rounds(60, ENDS)
    assert world.state() == "Applying" and "restart" not in world.acts
    world.away = False
    await world.rounds(30)
    assert (world.state(), world.status().reason) == ("Applying", "Interrupted")
    world.allow("containerd")
    await world.rounds(60, ENDS)
    assert world.state() == "Healthy"


async def killed_in(state: ComponentApplyState, class_: str, at: str = "") -> MortalWorld:
    """The agent dies with a record of this state, and of this move where one is named."""
    for moment in range(1, MOST):
        world = await killed_at(moment, True, class_)
        assert world is not None
        record = world.records.load()["containerd"]
        if record.state is state and str(record.at or "") == (at or "software"):
            return world
    raise AssertionError("no such moment")
