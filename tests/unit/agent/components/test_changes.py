"""Changes of components: their order, their permits, their ends, and what stops them."""

import msgspec
from support.component_world import CONFIG, PACKAGE, UNIT, ComponentWorld, component

from agent.components.model import MOVING
from agent.components.ports import FileSnapshot, PackageWanted
from agent.components.unitlog import CHARACTERS, log_command, read_unit_log
from agent.host.ports import CommandResult
from kubenode.runtime.components.render import KeyText, TextRef
from kubenode.runtime.components.wire import WireComponentStatus
from simulation.hosts.components import SimulatedRunner

SECRET = TextRef("Secret", "registry", "password")


def on(family: str, *needs: str, version: str = "1.0.0", **spec: object) -> dict[str, object]:
    depends = [{"component": name} for name in needs]
    return component(version, family, dependsOn=depends, **spec)


async def test_components_go_one_at_a_time_what_others_stand_on_first() -> None:
    world = ComponentWorld()
    middle: list[str] = []
    tell = world.engine._tell

    def watch(told: list[WireComponentStatus]) -> None:
        records = world.engine._records.values()
        middle.extend(one.name for one in records if one.state in MOVING or one.target)
        tell(told)

    world.engine._tell = watch
    world.assign(on("kubelet", "containerd"))
    world.assign(on("containerd", "runc"))
    world.assign(on("runc"))
    await world.rounds(90)
    assert {name: world.state(name) for name in world.assigned} == {
        **{"kubelet": "Healthy", "containerd": "Healthy", "runc": "Healthy"},
    }
    assert list(dict.fromkeys(middle)) == ["runc", "containerd", "kubelet"]
    assert sorted(middle, key=["runc", "containerd", "kubelet"].index) == middle


async def test_what_depends_on_a_newer_version_waits_for_it() -> None:
    world = ComponentWorld()
    need = [{"component": "runc", "version": ">=1.2"}]
    world.assign(component("1.0.0", "kubelet", dependsOn=need))
    world.assign(on("runc"))
    await world.rounds(60)
    assert world.state("kubelet") == "Staged"
    assert world.status("kubelet").message == "needs runc >=1.2, this machine has 1.0.0"
    world.assign(on("runc", version="1.2.0", disruption={"minor": "None"}))
    await world.rounds(60)
    assert world.state("kubelet") == "Healthy"


async def test_why_a_component_is_blocked() -> None:
    world = ComponentWorld()
    world.assign(on("runc", requires={"os": ["ubuntu-24.04"]}))
    world.assign(on("kubelet", "cni"))
    world.assign(on("a", "b"))
    world.assign(on("b", "a"))
    world.assign(component("2.1.3"))
    del world.server.components["containerd-2.1.3"]
    await world.rounds(30)
    told = {one.name: (one.state, one.reason) for one in world.told}
    assert told == {
        "runc": ("Blocked", "RequirementsNotMet"),
        "kubelet": ("Blocked", "MissingDependency"),
        "a": ("Blocked", "DependencyCycle"),
        "b": ("Blocked", "DependencyCycle"),
        "containerd": ("Blocked", "MissingComponent"),
    }
    assert "a -> b -> a" in world.status("a").message
    assert world.parts.packages.installs == 0
    world.assign(component("2.1.3"))
    await world.rounds(120)
    assert world.state() == "Healthy"


async def test_a_fresh_install_that_fails_leaves_nothing() -> None:
    world = ComponentWorld()
    world.parts.crashing[UNIT] = {(PACKAGE, "2.1.3-1")}
    world.assign(component())
    await world.rounds(120)
    assert world.state() == "RolledBack"
    assert PACKAGE not in world.parts.packages.packages and CONFIG not in world.parts.files.files


async def test_what_was_there_before_us_is_never_taken_away() -> None:
    """An imported host: nothing of ours to go back to is Failed, and its software stays."""
    world = ComponentWorld()
    await world.parts.ports().packages["apt"].install([PackageWanted(PACKAGE, "2.0.9-1")], 1)
    world.parts.crashing[UNIT] = {(PACKAGE, "2.1.3-1")}
    world.assign(component())
    await world.rounds(30)
    assert world.status().needs == "Drain"  # 2.0 to 2.1 is a minor step
    world.allow("containerd")
    await world.rounds(120)
    assert world.state() == "Failed" and PACKAGE in world.parts.packages.packages


async def test_a_package_that_is_nowhere_stays_staging_and_old() -> None:
    world = ComponentWorld()
    world.parts.packages.missing.add((PACKAGE, "2.1.3-1"))
    world.assign(component())
    await world.rounds(60)
    status = world.status()
    assert (status.state, status.reason) == ("Staging", "StageFailed")
    assert "no version 2.1.3-1" in status.message
    world.parts.packages.missing.clear()
    await world.rounds(60)
    assert world.state() == "Healthy"


async def test_removal_waits_for_its_permit_and_leaves_nothing() -> None:
    world = ComponentWorld()
    world.assign(component())
    await world.rounds(30)
    world.assign(component(), state="Absent")
    await world.rounds(30)
    status = world.status()
    assert (status.state, status.needs) == ("Pending", "Drain")
    assert PACKAGE in world.parts.packages.packages
    world.allow("containerd")
    await world.rounds(30)
    assert (world.status().state, world.status().run_state) == ("Absent", "Absent")
    assert PACKAGE not in world.parts.packages.packages and CONFIG not in world.parts.files.files


async def test_one_that_is_assigned_no_more_stays_on_its_host_and_is_forgotten() -> None:
    world = ComponentWorld()
    world.assign(component())
    await world.rounds(30)
    world.assigned.clear()
    await world.rounds(30)
    assert world.told == [] and world.version == "2.1.3-1" and world.records.load() == {}


async def test_it_is_staged_ahead_and_applied_later() -> None:
    world = ComponentWorld()
    world.assign(component())
    await world.rounds(30)
    revision = world.assign(component("2.1.4"))
    world.assigned["containerd"]["desiredState"] = "Staged"
    world.allow("containerd")
    await world.rounds(60)
    status = world.status()
    assert (status.state, status.revision, status.version) == ("Staged", revision, "2.1.3")
    assert status.needs is None and status.staged_at is not None
    world.assigned["containerd"]["desiredState"] = "Running"
    await world.rounds(60)
    assert world.state() == "Healthy" and world.version == "2.1.4-1"


async def test_changes_of_class_reboot_share_one_reboot() -> None:
    world = ComponentWorld()
    for family, needs in (("runc", ()), ("kubelet", ("runc",))):
        world.assign(on(family, *needs, disruption={"install": "Reboot"}))
    world.allow("runc", "kubelet")
    await world.rounds(60)
    assert world.host.reboots == 1
    assert {world.state("runc"), world.state("kubelet")} == {"Applying"}
    world.host.boot += 1
    await world.restart()
    await world.rounds(60)
    assert {world.state("runc"), world.state("kubelet")} == {"Healthy"}
    assert world.host.reboots == 1


async def test_hooks_are_checked_before_and_after() -> None:
    world = ComponentWorld()
    check, run = ["/usr/bin/check"], ["/usr/bin/migrate"]
    world.parts.runner.answers[tuple(check)] = CommandResult(1, "not yet")
    hooks = {"post": {"run": run, "check": check}, "config": {"run": ["/bin/true"]}}
    world.assign(component(hooks=hooks, undo={"mode": "None"}))
    await world.rounds(30)
    assert world.state() == "Failed" and "its check fails" in world.status().message
    assert world.parts.runner.ran == [("/bin/true",), tuple(check), tuple(run), tuple(check)]
    world.parts.runner.answers.clear()
    world.assign(component(hooks=hooks, undo={"mode": "None"}), attempt=2)
    await world.rounds(30)
    assert world.state() == "Healthy" and tuple(run) not in world.parts.runner.ran[4:]


async def test_no_secret_is_told() -> None:
    world = ComponentWorld()
    world.server.texts[SECRET] = KeyText("token = s3cret-word", "uid-1")
    key = {"secretKey": {"name": "registry", "key": "password"}}
    files = [{"path": CONFIG, "content": key, "mode": "0600", "onChange": "Restart"}]
    run = ["/usr/bin/login"]
    world.parts.runner.answers[tuple(run)] = CommandResult(1, "cannot log in with s3cret-word")
    world.assign(component(files=files, hooks={"post": {"run": run}}, undo={"mode": "None"}))
    await world.rounds(30)
    assert world.state() == "Failed" and "cannot log in" in world.status().message
    assert "s3cret" not in msgspec.json.encode(world.told).decode()
    there = world.parts.files.files[CONFIG]
    assert there == FileSnapshot(b"token = s3cret-word", "0600", "root:root")


async def test_an_edited_secret_is_not_applied_before_its_revision_is() -> None:
    """Invariant 12: a fleet-wide edit restarts nothing until a set rolls it out."""
    world = ComponentWorld()
    world.server.texts[SECRET] = KeyText("old", "uid-1")
    key = {"secretKey": {"name": "registry", "key": "password"}}
    files = [{"path": CONFIG, "content": key, "onChange": "Restart"}]
    world.assign(component(files=files))
    await world.rounds(30)
    first = dict(world.assigned["containerd"])
    world.server.texts[SECRET] = KeyText("new", "uid-1")
    await world.restart()
    await world.engine._news(set())
    await world.rounds(120)
    assert world.state() == "Healthy" and world.parts.files.files[CONFIG].content == b"old"
    world.assign(component(files=files))
    world.allow("containerd")
    await world.rounds(60)
    assert world.parts.files.files[CONFIG].content == b"new"
    world.assigned["containerd"] = first  # a rollback: its text is nowhere but on this host
    await world.rounds(60)
    assert world.state() == "Healthy" and world.parts.files.files[CONFIG].content == b"old"


async def test_an_api_server_that_is_away_begins_nothing_and_stops_nothing() -> None:
    world = ComponentWorld()
    world.assign(component())
    await world.rounds(30)
    world.server.away = True
    world.assign(component("2.1.4"))
    world.allow("containerd")
    await world.rounds(120)
    assert world.version == "2.1.3-1" and world.state() == "Pending"
    await world.parts.units.stop(UNIT, 1)
    await world.rounds(60)
    assert world.parts.units.units[UNIT].active == "active"
    world.server.away = False
    await world.rounds(60)
    assert world.state() == "Healthy" and world.version == "2.1.4-1"


async def test_invariant_09_a_withdrawn_version_ends_on_the_old_one() -> None:
    world = ComponentWorld()
    world.assign(component())
    await world.rounds(30)
    old = dict(world.assigned["containerd"])
    world.parts.crashing[UNIT] = {(PACKAGE, "2.1.4-1")}
    world.assign(component("2.1.4"))
    world.allow("containerd")
    await world.rounds(5)
    assert world.state() == "Verifying"
    world.assigned["containerd"] = old
    await world.rounds(60)
    assert world.state() == "Healthy" and world.version == "2.1.3-1"


async def test_f31_what_is_told_names_the_revision_it_speaks_of() -> None:
    world = ComponentWorld()
    first = world.assign(component())
    await world.rounds(30)
    second = world.assign(component("2.1.4"))
    assert world.status().revision == first
    await world.rounds(0.01)
    status = world.status()
    assert status.revision == second and status.state != "Healthy"


async def test_what_does_not_change_is_not_told_again() -> None:
    world = ComponentWorld()
    world.assign(component())
    await world.rounds(60)
    writes, reads = world.writes, len(world.server.reads)
    await world.rounds(3600)
    assert (world.writes, len(world.server.reads)) == (writes, reads)


async def test_a_permit_is_asked_for_while_a_permitted_change_waits_for_others() -> None:
    world = ComponentWorld()
    world.assign(on("kubelet", "containerd", disruption={"install": "Restart"}))
    world.assign(on("containerd", requires={"os": ["ubuntu-24.04"]}))
    await world.rounds(20)
    for _ in range(2):
        status = world.status("kubelet")
        assert (status.reason, status.needs) == ("WaitingForOthers", "Restart")
        world.allow("kubelet")
        await world.rounds(20)


async def test_what_an_unhealthy_unit_logged_is_reported_before_the_deadline() -> None:
    world = ComponentWorld()
    world.parts.crashing[UNIT] = {(PACKAGE, "2.1.3-1")}
    log = "E1128 cannot create request: Unauthorized\nE1128 token=abcdef.0123456789abcdef\n"
    world.parts.runner.answers[tuple(log_command(UNIT))] = CommandResult(0, log)
    world.assign(component("2.1.3", healthDeadline="10m"), pause="3.9")
    await world.rounds(60)
    status = world.status()
    assert (status.state, status.reason) == ("Verifying", "NotHealthyYet")
    assert f"{UNIT} logged: E1128 cannot create request: Unauthorized" in status.message
    assert "0123456789abcdef" not in status.message, "likely secrets are hidden"
    writes = world.writes
    await world.rounds(300)
    assert world.writes == writes, "a log that stays the same is written once"
    world.parts.crashing.clear()
    world.parts.runner.answers.clear()
    await world.parts.units.start(UNIT, 1)
    await world.rounds(120)
    status = world.status()
    assert (status.state, status.reason, status.message) == ("Healthy", "", "")


async def test_a_long_log_is_cut_at_its_beginning() -> None:
    runner = SimulatedRunner()
    runner.answers[tuple(log_command(UNIT))] = CommandResult(0, "old " * 1000 + "\nlast line\n")
    text = await read_unit_log(runner, UNIT)
    assert len(text) == CHARACTERS and text.endswith("old last line")
    runner.answers[tuple(log_command(UNIT))] = CommandResult(1, "no journal")
    assert await read_unit_log(runner, UNIT) == ""
