"""Drift: wanted against found, over sources, files and units."""

from datetime import UTC, datetime, timedelta

import pytest
from hosts.component_contract import Given, contract

from agent.components.drift.compare import HostDriftKind, HostState, drifted
from agent.components.drift.fight import CORRECTIONS, FRESH, MOST_PATHS, STARTS
from agent.components.drift.observe import paths, read_host_state
from agent.components.files.placement import put, take_away
from agent.components.ports import Installed, PackageSnapshot, UnitSnapshot
from agent.components.sources import source_of
from agent.components.units import let_go, settle
from agent.host import Contraindicated, HostError
from agent.host.ports import CommandResult
from kubenode.runtime.components.change import ComponentForm
from kubenode.runtime.components.render import RenderedDropIn, RenderedFile, RenderedUnit
from kubenode.runtime.components.wire import (
    Ownership,
    UnitState,
    WireChangeClass,
    WireComponentSource,
    WireDisruptions,
    WirePackage,
    WirePackages,
    WireScript,
)
from simulation.hosts.components import SimulatedComponents

NOW = datetime(2026, 3, 2, tzinfo=UTC)
FILE = RenderedFile("/etc/shop.toml", "a = 1\n", ownership=Ownership.KEYS)
UNIT = RenderedUnit("shop.service", drop_ins=(RenderedDropIn("a.conf", "[Unit]\n"),))
WELL = UnitSnapshot(True, "enabled", "active", "1")


def a_form(version: str = "1.0", unit: RenderedUnit = UNIT) -> ComponentForm:
    source = WireComponentSource("apt", apt=WirePackages([WirePackage("shop", f"{version}-1")]))
    classes = WireDisruptions(install=WireChangeClass.RESTART, patch=WireChangeClass.RELOAD)
    return ComponentForm(version, source, classes, (FILE,), (unit,))


async def a_host(form: ComponentForm) -> SimulatedComponents:
    host = SimulatedComponents()
    host.packages.brings["shop"] = ("shop.service",)
    await apply(host, form)
    return host


async def apply(host: SimulatedComponents, form: ComponentForm) -> None:
    ports = host.ports()
    await source_of(form.version, form.source, ports).install()
    for file in form.files:
        await put(ports.files, file)
    for unit in form.units:
        await settle(ports.units, ports.files, unit)


async def drift_of(host: SimulatedComponents, form: ComponentForm) -> list[tuple[str, str]]:
    found = await read_host_state(form, host.ports())
    return [(one.kind, one.path) for one in drifted("shop", form, found)]


async def test_a_host_in_memory_holds_to_the_contract_of_real_ones() -> None:
    host = SimulatedComponents()
    host.packages.brings["lamp"] = ("lamp.service",)
    host.packages.missing.add(("lamp", "99-1"))
    given = Given("lamp", ("1-1", "2-1"), (("file:///one", "1" * 64), ("file:///two", "2" * 64)))
    assert await contract(host.ports(), given) == []


async def test_what_was_applied_has_no_drift_and_is_not_touched_again() -> None:
    host = await a_host(a_form())
    starts, writes, installs = dict(host.units.starts), host.files.writes, host.packages.installs
    await apply(host, a_form())
    assert await drift_of(host, a_form()) == []
    assert (host.units.starts, host.files.writes) == (starts, writes)
    assert host.packages.installs == installs


@pytest.mark.parametrize("kind", list(HostDriftKind))
async def test_every_kind_of_drift_is_seen_alone_and_put_right(kind: HostDriftKind) -> None:
    host = await a_host(a_form())
    there = host.units.units["shop.service"]
    match kind:
        case HostDriftKind.VERSION:
            host.packages.packages["shop"] = PackageSnapshot("2.0-1", held=True)
        case HostDriftKind.HOLD:
            host.packages.packages["shop"] = PackageSnapshot("1.0-1")
        case HostDriftKind.FILE:
            host.files.edit(FILE.path, b"a = 2\nb = 3\n")
        case HostDriftKind.UNIT:
            host.units.units["shop.service"] = UnitSnapshot(True, "disabled", "active", "1")
        case HostDriftKind.RUN_STATE:
            host.units.units["shop.service"] = UnitSnapshot(True, there.enabled, "failed")
    assert [one for one, _ in await drift_of(host, a_form())] == [kind]
    await apply(host, a_form())
    assert await drift_of(host, a_form()) == []
    if kind is HostDriftKind.FILE:
        assert host.files.files[FILE.path].content == b"a = 1\nb = 3\n"


@pytest.mark.parametrize(
    ("wanted", "there", "kinds"),
    [
        (UNIT, UnitSnapshot(True, "masked", "inactive"), ["Unit", "RunState"]),
        (UNIT, UnitSnapshot(True, "masked-runtime", "active"), ["Unit"]),
        (UNIT, UnitSnapshot(True, "enabled-runtime", "active"), ["Unit"]),
        (UNIT, UnitSnapshot(True, "static", "active"), []),
        (UNIT, UnitSnapshot(False), ["Unit", "RunState"]),
        (UNIT, UnitSnapshot(True, "enabled", "inactive", "1", oneshot=True), []),
        (UNIT, UnitSnapshot(True, "enabled", "inactive", "", oneshot=True), ["RunState"]),
        (RenderedUnit("shop.service", state=UnitState.MASKED), WELL, ["Unit", "RunState"]),
        (RenderedUnit("shop.service", False, UnitState.INACTIVE), WELL, ["Unit", "RunState"]),
        (RenderedUnit("shop.service", False), UnitSnapshot(True, "static", "active"), []),
    ],
)
def test_units_that_are_not_as_wanted(
    wanted: RenderedUnit, there: UnitSnapshot, kinds: list[str]
) -> None:
    found = HostState(Installed("1.0", True), {}, {"shop.service": there})
    assert [one.kind for one in drifted("shop", a_form(unit=wanted), found)] == kinds


@pytest.mark.parametrize(
    ("installed", "disturbs"),
    [
        (Installed(), WireChangeClass.RESTART),
        (Installed("1.0", broken="shop is half-configured"), WireChangeClass.RELOAD),
        (Installed("1.0", changed=("/opt/x",)), WireChangeClass.RELOAD),
        (Installed("1.0.9-1"), WireChangeClass.RELOAD),
        (Installed("2.0-1"), WireChangeClass.DRAIN),
        (Installed("sha256:ab"), WireChangeClass.DRAIN),
    ],
)
def test_a_wrong_version_is_put_right_at_the_class_of_its_step(
    installed: Installed, disturbs: WireChangeClass
) -> None:
    (one,) = (
        d
        for d in drifted("shop", a_form(), HostState(installed))
        if d.kind is HostDriftKind.VERSION
    )
    assert one.disturbs is disturbs


async def test_everything_is_taken_back_and_foreign_keys_stay() -> None:
    host = await a_host(a_form())
    host.files.edit(FILE.path, b"a = 1\nb = 3\n")
    ports = host.ports()
    await let_go(ports.units, ports.files, UNIT)
    await take_away(ports.files, FILE)
    form = a_form()
    await source_of(form.version, form.source, ports).remove((), purge=True)
    assert host.files.files.keys() == {FILE.path}
    assert host.files.files[FILE.path].content == b"b = 3\n"
    assert host.packages.packages == {} and "shop.service" not in host.units.units


async def test_a_hold_that_we_did_not_ask_for_stays() -> None:
    source = WireComponentSource(
        "apt", apt=WirePackages([WirePackage("shop", "1.0-1")], hold=False)
    )
    host = SimulatedComponents()
    host.packages.packages["shop"] = PackageSnapshot("1.0-1", held=True)
    ours = source_of("1.0", source, host.ports())
    await ours.install()
    assert (await ours.read_installed()).pinned and host.packages.packages["shop"].held


async def test_a_script_tells_its_version_and_runs_only_if_it_is_another() -> None:
    script = WireScript(["detect"], ["install"], ["uninstall"])
    host = SimulatedComponents()
    source = source_of("1.0", WireComponentSource("script", script=script), host.ports())
    host.runner.answers[("detect",)] = CommandResult(127, "not found")
    assert (await source.read_installed()).version == ""
    await source.install()
    host.runner.answers[("detect",)] = CommandResult(0, "1.0\nmore\n")
    await source.install()
    assert (await source.read_installed()).exact
    assert host.runner.ran.count(("install",)) == 1
    host.runner.answers[("uninstall",)] = CommandResult(1, "in use")
    with pytest.raises(HostError, match="uninstall: exit status 1: in use"):
        await source.remove((), purge=True)


def test_a_source_that_this_host_cannot_have_is_named_with_the_remedy() -> None:
    source = WireComponentSource("zypper")
    with pytest.raises(Contraindicated, match="zypper: this agent does not know it"):
        source_of("1.0", source, SimulatedComponents().ports())


def test_files_drop_ins_masks_and_the_database_are_watched() -> None:
    assert paths(a_form()) == {
        FILE.path,
        "/etc/systemd/system/shop.service.d/a.conf",
        "/etc/systemd/system/shop.service",
        "/var/lib/dpkg/status",
    }


def test_invariant_12_a_second_writer_ends_in_a_fight_and_an_hour_later_it_is_forgotten() -> None:
    fights, at = FRESH, NOW
    for _ in range(CORRECTIONS):
        assert not fights.fighting(HostDriftKind.FILE, "/a", at)
        fights = fights.corrected_now(HostDriftKind.FILE, "/a", at)
        at += timedelta(minutes=15)
    assert fights.fighting(HostDriftKind.FILE, "/a", at)
    assert not fights.fighting(HostDriftKind.FILE, "/b", at)
    assert not fights.fighting(HostDriftKind.FILE, "/a", NOW + timedelta(hours=1))


def test_a_unit_that_stops_again_and_again_is_started_three_times_in_ten_minutes() -> None:
    fights = FRESH
    for _ in range(STARTS):
        fights = fights.corrected_now(HostDriftKind.RUN_STATE, "shop.service", NOW)
    assert fights.fighting(HostDriftKind.RUN_STATE, "shop.service", NOW + timedelta(seconds=599))
    assert not fights.fighting(
        HostDriftKind.RUN_STATE, "shop.service", NOW + timedelta(seconds=600)
    )


def test_what_is_remembered_of_corrections_is_bounded() -> None:
    fights = FRESH
    for number in range(MOST_PATHS + 50):
        fights = fights.corrected_now(
            HostDriftKind.FILE, f"/{number}", NOW + timedelta(seconds=number)
        )
    assert len(fights.corrected) == MOST_PATHS and f"{HostDriftKind.FILE} /249" in fights.corrected
