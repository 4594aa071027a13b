"""What is asked of package managers, and how their answers are read."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from support.clock import FakeClock

from agent.components.ports import PackageSnapshot, PackageWanted
from agent.host import HostError
from agent.host.ports import CommandResult
from agent.host.real.components import dpkg, rpm
from agent.host.real.components.dpkg import DpkgPackages
from agent.host.real.components.locks import Patient
from agent.host.real.components.rpm import DnfPackages
from agent.host.real.components.runner import unit_name

LOCKED = "dpkg: error: dpkg frontend lock was locked by another process with pid 7"
SHOP = PackageWanted("shop", "2.0-1")


class Scripted:
    """A runner whose programs say what is written, by a word of their argv; each word in turn."""

    def __init__(self, **says: Sequence[CommandResult]) -> None:
        self._says = {word: list(answers) for word, answers in says.items()}
        self.ran: list[list[str]] = []

    async def run(self, argv: Sequence[str], limit: float, name: str = "") -> CommandResult:
        self.ran.append(list(argv))
        for word, answers in self._says.items():
            if any(word == part.lstrip("-") for part in argv):
                return answers.pop(0) if len(answers) > 1 else answers[0]
        return CommandResult(0, "")

    def asked(self, word: str) -> list[list[str]]:
        return [argv for argv in self.ran if word in argv]


def shown(
    version: str, status: str = "installed", want: str = "install", error: str = "ok"
) -> CommandResult:
    return CommandResult(0, f"shop\t{version}\t{want}\t{status}\t{error}")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("shop\t1:2.0-1\tinstall\tinstalled\tok", PackageSnapshot("1:2.0-1")),
        ("shop\t2.0\thold\tinstalled\tok", PackageSnapshot("2.0", held=True)),
        ("shop\t2.0\tinstall\thalf-configured\tok", PackageSnapshot("2.0", broken=True)),
        ("shop\t2.0\tinstall\thalf-installed\treinstreq", PackageSnapshot("2.0", broken=True)),
        ("shop\t2.0\tinstall\tinstalled\treinstreq", PackageSnapshot("2.0", broken=True)),
        ("shop\t2.0\tdeinstall\tconfig-files\tok", PackageSnapshot("")),
        ("shop\t\tunknown\tnot-installed\tok", PackageSnapshot("")),
    ],
)
def test_the_states_of_dpkg_are_told_apart(line: str, found: PackageSnapshot) -> None:
    assert dpkg.listed(f"dpkg-query: no packages found matching x\n{line}\n") == {"shop": found}


def test_a_downloaded_package_is_known_by_its_name() -> None:
    assert dpkg.archive_of("/x/shop_1%3a2.0-1_amd64.deb") == ("shop", "1:2.0-1")
    assert dpkg.archive_of("find: no such file") is None


async def test_an_install_is_exact_keeps_changed_files_and_removes_nothing() -> None:
    runner = Scripted(show=[shown("1.0-1"), shown("2.0-1")])
    await DpkgPackages(runner).install([SHOP], 60)
    (argv,) = runner.asked("install")
    assert "shop=2.0-1" in argv and "--no-remove" in argv and "--allow-downgrades" in argv
    assert "--option=Dpkg::Options::=--force-confold" in argv
    assert "--option=DPkg::Lock::Timeout=60" in argv
    assert "--option=Dir::Cache::pkgcache=" in argv
    assert "DEBIAN_FRONTEND=noninteractive" in argv and "NEEDRESTART_SUSPEND=1" in argv


async def test_an_install_that_leaves_another_version_is_an_error() -> None:
    runner = Scripted(show=[shown("1.0-1")])
    with pytest.raises(HostError, match=r"shop is 1\.0-1 after the install of 2\.0-1"):
        await DpkgPackages(runner).install([SHOP], 60)


async def test_f37_the_lock_is_waited_for_and_no_longer_than_told() -> None:
    clock = FakeClock()

    async def sleep(seconds: float) -> None:
        clock.step(timedelta(seconds=seconds))

    runner = Scripted(
        purge=[CommandResult(2, LOCKED), CommandResult(2, LOCKED), CommandResult(0, "")]
    )
    patient = Patient(runner, dpkg.LOCKED, clock.monotonic, sleep)
    await DpkgPackages(runner, patient).remove(["shop"], 60, purge=True)
    assert len(runner.asked("--purge")) == 3
    runner = Scripted(purge=[CommandResult(2, LOCKED)])
    patient = Patient(runner, dpkg.LOCKED, clock.monotonic, sleep)
    began = clock.monotonic()
    with pytest.raises(HostError, match="locked for more than 60 s"):
        await DpkgPackages(runner, patient).remove(["shop"], 60, purge=True)
    assert clock.monotonic() - began <= 60


async def test_f37_a_broken_database_is_configured_before_anything_else() -> None:
    runner = Scripted(audit=[CommandResult(1, "half-configured: shop")], show=[shown("2.0-1")])
    await DpkgPackages(runner).install([SHOP], 60)
    acts = [argv for argv in runner.ran if "--configure" in argv or "install" in argv]
    assert "--configure" in acts[0] and "shop=2.0-1" in acts[-1]


async def test_dnf_goes_to_the_exact_version_past_our_own_lock() -> None:
    says = [CommandResult(0, "shop\t0:1.0-1.el9"), CommandResult(0, "shop\t0:2.0-1")]
    runner = Scripted(query=says, list=[CommandResult(0, "shop-0:1.0-1.el9.*")])
    await DnfPackages(runner).install([SHOP], 60)
    (argv,) = runner.asked("install")
    assert argv[-1] == "shop-2.0-1" and "--disableplugin=versionlock" in argv


async def test_dnf_reads_versions_locks_and_what_is_there_twice() -> None:
    said = "shop\t0:1.0-1\ntill\t1:2.0-3\npackage bank is not installed\nhalf\t0:1-1\nhalf\t0:2-1"
    runner = Scripted(
        query=[CommandResult(1, said)],
        list=[CommandResult(0, "till-1:2.0-3.*\nshop-keeper-0:1-1.*")],
    )
    assert await DnfPackages(runner).read_packages(["shop", "till", "bank", "half"]) == {
        "shop": PackageSnapshot("1.0-1"),
        "till": PackageSnapshot("1:2.0-3", held=True),
        "bank": PackageSnapshot(),
        "half": PackageSnapshot("2-1", broken=True),
    }


async def test_dnf_without_its_plugin_is_told_with_the_remedy() -> None:
    runner = Scripted(list=[CommandResult(1, "No such command: versionlock")])
    with pytest.raises(HostError, match="install python3-dnf-plugin-versionlock"):
        await DnfPackages(runner).read_packages(["shop"])


async def test_rpm_removes_only_what_is_there_and_never_what_needs_it() -> None:
    runner = Scripted(query=[CommandResult(1, "shop\t0:1.0-1\n")])
    await DnfPackages(runner).remove(["shop", "till"], 60, purge=True)
    assert runner.asked("--erase") == [["rpm", "--erase", "shop"]]


@pytest.mark.parametrize(
    ("lock", "held"),
    [
        ("shop-0:2.0-1.*", True),
        ("shop-2.0-1.*", True),
        ("shop-2.0-1", True),
        ("shop-0:2.*", True),
        ("shop-0:1.0-1.*", False),
        ("shop-1:2.0-1.*", False),
        ("shop-keeper-0:2.0-1.*", False),
    ],
)
def test_a_lock_holds_the_version_that_it_names_of_its_own_package(lock: str, held: bool) -> None:
    assert rpm.locked("shop", "2.0-1", [lock]) is held


async def test_a_lock_on_the_version_before_makes_room_for_one_on_that_which_is_there() -> None:
    locks = CommandResult(0, "shop-0:1.0-1.*\n!shop-0:3.0-1.*\n")
    runner = Scripted(query=[CommandResult(0, "shop\t0:2.0-1\n")], list=[locks])
    assert not (await DnfPackages(runner).read_packages(["shop"]))["shop"].held
    await DnfPackages(runner).hold(["shop"], on=True)
    assert runner.asked("delete")[0][-1] == "shop-0:1.0-1.*"
    assert runner.asked("add")[0][-2:] == ["--raw", "shop-0:2.0-1.*"]


async def test_what_is_locked_already_is_asked_of_nobody() -> None:
    runner = Scripted(
        query=[CommandResult(0, "shop\t0:2.0-1\n")], list=[CommandResult(0, "shop-0:2.0-1.*")]
    )
    await DnfPackages(runner).hold(["shop"], on=True)
    assert not runner.asked("add") and not runner.asked("delete")


def test_a_unit_is_found_again_by_step_and_program() -> None:
    assert unit_name("a", ["x"]) == unit_name("a", ["x"]) != unit_name("b", ["x"])
    assert unit_name("a", ["x", "y"]) != unit_name("a", ["x y"])
