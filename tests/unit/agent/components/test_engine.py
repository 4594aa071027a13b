"""The engine on a simulated host: from what a Machine says to a host that is so."""

from support.component_world import CONFIG, PACKAGE, UNIT, ComponentWorld, component


async def installed(world: ComponentWorld, **spec: object) -> None:
    world.assign(component(**spec))  # type: ignore[arg-type]
    world.allow("containerd")
    await world.rounds()
    assert world.state() == "Healthy", world.record()
    world.permit = None


async def test_a_component_is_installed() -> None:
    world = ComponentWorld()
    await installed(world)
    assert world.version == "2.1.3-1" and world.parts.packages.packages[PACKAGE].held
    assert world.parts.files.files[CONFIG].content == b"pause = '3.10'"
    assert world.parts.units.units[UNIT].active == "active"
    status = world.status()
    assert (status.state, status.version, status.run_state) == ("Healthy", "2.1.3", "Running")
    assert status.config_hash == world.assigned["containerd"]["configHash"]


async def test_a_change_waits_for_its_permit() -> None:
    world = ComponentWorld()
    await installed(world)
    starts = world.starts()
    world.assign(component("2.1.4"))
    await world.rounds()
    status = world.status()
    assert (status.state, status.needs, status.reason) == ("Staged", "Restart", "WaitingForPermit")
    assert world.version == "2.1.3-1" and world.starts() == starts
    assert (PACKAGE, "2.1.4-1") in world.parts.packages.staged
    world.allow("containerd", most="Reload")
    await world.rounds()
    assert world.state() == "Staged"
    world.allow("containerd", seconds=-1)
    await world.rounds()
    assert world.state() == "Staged"
    world.allow("containerd", most="Restart")
    await world.rounds()
    assert world.state() == "Healthy" and world.version == "2.1.4-1"
    previous = world.status().previous
    assert previous is not None and previous.component == "containerd-2.1.3"


async def test_a_version_that_crashes_is_taken_back() -> None:
    world = ComponentWorld()
    await installed(world)
    world.parts.crashing[UNIT] = {(PACKAGE, "2.1.4-1")}
    world.assign(component("2.1.4"))
    world.allow("containerd")
    await world.rounds(120)
    status = world.status()
    assert status.state == "RolledBack" and world.version == "2.1.3-1"
    assert "containerd.service" in status.message
    assert world.parts.units.units[UNIT].active == "active"
    installs = world.parts.packages.installs
    await world.rounds(300)
    assert world.parts.packages.installs == installs  # not tried again by itself
    world.parts.crashing.clear()
    world.assign(component("2.1.4"), attempt=2)
    world.allow("containerd")
    await world.rounds()
    assert world.state() == "Healthy" and world.version == "2.1.4-1"


async def test_f35_nothing_changed_nothing_restarts() -> None:
    """Invariant 11: another revision of the same content, a reboot, a new process: no restart."""
    world = ComponentWorld()
    await installed(world)
    starts, writes = world.starts(), world.parts.files.writes
    await world.restart()
    await world.rounds()
    world.host.boot += 1
    await world.restart()
    await world.rounds()
    world.assigned["containerd"]["revision"] = "2-0123456789"
    await world.rounds()
    assert world.status().revision == "2-0123456789" and world.state() == "Healthy"
    assert (world.starts(), world.parts.files.writes) == (starts, writes)
    world.records.drop("containerd")  # the agent is installed anew
    await world.restart()
    await world.rounds()
    assert world.state() == "Healthy"
    assert (world.starts(), world.parts.files.writes) == (starts, writes)
