"""What others change on a host: put right where it disturbs nobody, asked for where it does."""

from support.component_world import CONFIG, PACKAGE, UNIT, ComponentWorld, component

from agent.components.ports import PackageSnapshot


async def a_world(**spec: object) -> ComponentWorld:
    world = ComponentWorld()
    world.assign(component(**spec))  # type: ignore[arg-type]
    world.allow("containerd")
    await world.rounds(30)
    assert world.state() == "Healthy"
    world.permit = None
    return world


def a_file(on_change: str) -> list[dict[str, object]]:
    return [{"path": CONFIG, "content": {"inline": "a"}, "onChange": on_change}]


async def look(world: ComponentWorld, seconds: float = 30) -> None:
    await world.engine._news(set())
    await world.rounds(seconds)


async def test_a_file_edited_by_hand_comes_back_at_once_where_that_disturbs_nobody() -> None:
    world = await a_world(files=a_file("Reload"))
    starts = world.starts()
    world.parts.files.edit(CONFIG, b"mine")
    await look(world)
    assert world.parts.files.files[CONFIG].content == b"a"
    assert world.state() == "Healthy" and world.status().drift == []
    assert world.starts() == starts and world.parts.units.reloads[UNIT] == 1


async def test_one_that_needs_a_restart_waits_for_a_permit() -> None:
    world = await a_world(files=a_file("Restart"))
    starts = world.starts()
    world.parts.files.edit(CONFIG, b"mine")
    await look(world)
    status = world.status()
    assert (status.state, status.needs) == ("Drifted", "Restart")
    assert [(one.kind, one.path) for one in status.drift] == [("File", CONFIG)]
    assert world.parts.files.files[CONFIG].content == b"mine" and world.starts() == starts
    world.allow("containerd", most="Restart")
    await world.rounds(60)
    assert world.state() == "Healthy" and world.starts() == starts + 1
    assert world.parts.files.files[CONFIG].content == b"a" and world.status().drift == []


async def test_invariant_12_a_second_writer_ends_in_a_drift_fight() -> None:
    world = await a_world(files=a_file("None"))
    for n in range(6):
        world.parts.files.edit(CONFIG, b"mine %d" % n)
        await look(world, 20)
    status = world.status()
    assert status.state == "DriftFight" and CONFIG in status.message
    assert world.parts.files.files[CONFIG].content == b"mine 5"
    await world.restart()
    await look(world, 7200)
    assert world.state() == "DriftFight"  # hours later, and in another process
    world.assign(component(files=a_file("None")), attempt=2)
    await world.rounds(60)
    assert world.state() == "Healthy"
    assert world.parts.files.files[CONFIG].content == b"a"


async def test_a_stopped_unit_is_started_three_times_and_then_left_to_the_rules() -> None:
    world = await a_world()
    starts = world.starts()
    for _ in range(3):
        await world.parts.units.stop(UNIT, 1)
        await world.rounds(100)
        assert world.parts.units.units[UNIT].active == "active"
        assert world.state() == "Healthy"
    await world.parts.units.stop(UNIT, 1)
    await world.rounds(100)
    assert world.starts() == starts + 3
    status = world.status()
    assert (status.state, status.reason) == ("Unhealthy", "StartsUsedUp")
    assert status.run_state == "Stopped"
    await world.rounds(700)  # the ten minutes are over
    assert world.state() == "Healthy" and world.starts() == starts + 4


async def test_a_masked_unit_is_healed() -> None:
    world = await a_world()
    await world.parts.units.set_masked(UNIT, on=True)
    await world.parts.units.stop(UNIT, 1)
    await look(world)
    unit = world.parts.units.units[UNIT]
    assert (unit.active, unit.enabled) == ("active", "enabled") and world.state() == "Healthy"


async def test_f37_a_package_that_others_moved_is_drift() -> None:
    world = await a_world(disruption={"patch": "Restart", "install": "None"})
    world.parts.packages.packages[PACKAGE] = PackageSnapshot("2.1.9-1", held=False)
    await look(world)
    status = world.status()
    assert (status.state, status.needs, status.version) == ("Drifted", "Restart", "2.1.9-1")
    assert {one.kind for one in status.drift} >= {"Version"}
    world.allow("containerd")
    await world.rounds(60)
    assert world.state() == "Healthy" and world.version == "2.1.3-1"
    assert world.parts.packages.packages[PACKAGE].held


async def test_a_hold_is_set_again() -> None:
    world = await a_world()
    world.parts.packages.packages[PACKAGE] = PackageSnapshot("2.1.3-1", held=False)
    await look(world)
    assert world.parts.packages.packages[PACKAGE].held and world.state() == "Healthy"


async def test_nothing_is_corrected_while_a_repair_is_under_way_or_has_the_hands() -> None:
    world = await a_world(files=a_file("None"))
    world.job = "job rj-1 is open"
    world.parts.files.edit(CONFIG, b"mine")
    await look(world)
    assert world.parts.files.files[CONFIG].content == b"mine"
    world.job = ""
    async with world.hands:
        await world.rounds(30)
        assert world.parts.files.files[CONFIG].content == b"mine"
    await world.rounds(30)
    assert world.parts.files.files[CONFIG].content == b"a"


async def test_what_is_applied_stays_so_while_a_change_waits() -> None:
    world = await a_world(files=a_file("None"))
    world.assign(component("2.1.4", files=a_file("None")))
    await world.rounds(30)
    assert world.state() == "Staged"
    world.parts.files.edit(CONFIG, b"mine")
    await look(world)
    assert world.state() == "Staged" and world.parts.files.files[CONFIG].content == b"a"
    assert world.version == "2.1.3-1"


async def test_f40_a_machine_that_is_observed_tells_and_changes_nothing() -> None:
    world = await a_world(files=a_file("None"))
    world.mode = "Observe"
    world.parts.files.edit(CONFIG, b"mine")
    await look(world)
    assert world.status().state == "Drifted" and world.status().drift
    world.assign(component("2.1.4"))
    world.allow("containerd")
    await world.rounds(60)
    assert world.version == "2.1.3-1" and world.parts.files.files[CONFIG].content == b"mine"
    assert world.status().reason == "Observed"


async def test_a_component_that_is_not_well_says_so() -> None:
    check = {"name": "api", "type": "http", "http": "http://127.0.0.1:1338/", "interval": "5s"}
    world = await a_world(health=[check])
    world.reach.said = "http://127.0.0.1:1338/ answers 500"
    await world.rounds(90)
    status = world.status()
    assert status.state == "Unhealthy" and "answers 500" in status.message
    world.reach.said = ""
    await world.rounds(90)
    assert world.state() == "Healthy"


async def test_repair_brings_it_back_under_the_permit_of_who_asks() -> None:
    world = await a_world(files=a_file("Drain"))
    starts = world.starts()
    world.parts.files.edit(CONFIG, b"mine")
    async with world.hands:
        await world.engine._news(set())
        assert await world.engine.repairable("containerd")
        task = world.engine.repair("containerd", 60)
        assert await world.beside(task) == ""
    assert world.parts.files.files[CONFIG].content == b"a" and world.starts() == starts + 1
    assert world.state() == "Healthy"
    world.parts.crashing[UNIT] = {(PACKAGE, "2.1.3-1")}
    async with world.hands:
        said = await world.beside(world.engine.repair("containerd", 300))
    assert "Unhealthy" in said and world.version == "2.1.3-1"
    assert await world.beside(world.engine.repair("cni", 60)) != ""
