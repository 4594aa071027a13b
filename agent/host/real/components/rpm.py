"""Packages of Red Hat and its kin: dnf with its plugin versionlock, and rpm.

dnf itself waits for its lock without end, so the time of the whole step bounds it. An rpm database
that an interrupted transaction left with a package in two versions is not repaired: which one is
right nobody here knows, and the error names the command that does it.
"""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from agent.components.ports import CommandRunner, PackageSnapshot, PackageWanted
from agent.host import HostError
from agent.host.real.components.locks import OUTPUT_CHARS, Patient

READ_SECONDS = 60.0
WORK_SECONDS = 1800.0
LOCKED = re.compile(r"can't create transaction lock|waiting for process with pid", re.IGNORECASE)
SHOWN = "%{NAME}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n"
DNF = ("dnf", "--assumeyes", "--quiet", "--setopt=install_weak_deps=False")
UNLOCKED = "--disableplugin=versionlock"
"""Our own lock must not be in the way of us."""


class DnfPackages:
    """Implements agent.components.ports.PackageManager. Configuration files that were changed stay:
    rpm puts the new ones beside them as .rpmnew.
    """

    def __init__(self, runner: CommandRunner, patient: Patient | None = None) -> None:
        self._runner = runner
        self._patient = patient or Patient(runner, LOCKED)

    async def read_packages(self, names: Sequence[str]) -> Mapping[str, PackageSnapshot]:
        ran = await self._read(["rpm", "--query", "--queryformat", SHOWN, *names])
        versions, locks = listed(ran), await self._locks()
        return {name: _make_snapshot(name, versions.get(name, []), locks) for name in names}

    async def stage(self, wanted: Sequence[PackageWanted], lock_wait: float) -> None:
        argv = [*DNF, UNLOCKED, "--setopt=keepcache=True", "install", "--downloadonly"]
        await self._patient.checked("dnf-stage", [*argv, *_named(wanted)], WORK_SECONDS, lock_wait)

    async def install(self, wanted: Sequence[PackageWanted], lock_wait: float) -> None:
        """`dnf install` of an exact version goes to it upwards and downwards."""
        before = await self.read_packages([package.name for package in wanted])
        if twice := sorted(name for name, there in before.items() if there.broken):
            raise HostError(
                f"the rpm database has {', '.join(twice)} in two versions, as after a transaction"
                " that was ended: run `dnf remove --duplicates`"
            )
        argv = [*DNF, UNLOCKED, "--setopt=keepcache=True", "install", *_named(wanted)]
        await self._patient.checked("dnf-install", argv, WORK_SECONDS, lock_wait)
        installed = await self.read_packages([package.name for package in wanted])
        for package in wanted:
            if installed[package.name].version != package.version:
                there = installed[package.name].version or "not installed"
                raise HostError(
                    f"package {package.name} is {there} after the install of {package.version}"
                )

    async def remove(self, names: Sequence[str], lock_wait: float, *, purge: bool) -> None:
        """By rpm, which refuses where others need one of them; dnf would take those too. What was
        changed of its configuration stays as .rpmsave, whatever `purge` says.
        """
        installed = await self.read_packages(names)
        there = [name for name in names if installed[name].version]
        if there:
            argv = ["rpm", "--erase", *there]
            await self._patient.checked("rpm-erase", argv, WORK_SECONDS, lock_wait)

    async def hold(self, names: Sequence[str], *, on: bool) -> None:
        """A lock on another version is no hold: dnf would go there. Ours takes its place, as
        versionlock adds none where a package has one. What it excludes is left alone.
        """
        installed, locks = await self.read_packages(names), await self._locks()
        wanted = [_lock(name, installed[name].version) for name in names] if on else []
        there = [lock for name in names for lock in locks_of(name, locks)]
        for what, specs in (
            (["delete"], [lock for lock in there if lock not in wanted]),
            (["add", "--raw"], [lock for lock in wanted if lock not in there]),
        ):
            if specs:
                argv = ["dnf", "--quiet", "versionlock", *what, *specs]
                await self._patient.checked("dnf-versionlock", argv, READ_SECONDS, READ_SECONDS)

    async def along(self, wanted: Sequence[PackageWanted]) -> Sequence[str]:
        """None is told: what came along stays."""
        return ()

    async def automatic(self, names: Sequence[str]) -> frozenset[str]:
        return frozenset()

    async def set_automatic(self, names: Sequence[str]) -> None:
        return

    async def remove_unneeded(self, names: Sequence[str], lock_wait: float) -> None:
        return

    async def _locks(self) -> Sequence[str]:
        output = await self._read(["dnf", "--quiet", "versionlock", "list"])
        return [line.strip() for line in output.splitlines() if not line.startswith("!")]

    async def _read(self, argv: Sequence[str]) -> str:
        """rpm's exit status is the number of packages it does not know."""
        try:
            ran = await self._runner.run(argv, READ_SECONDS)
        except TimeoutError as error:
            raise HostError(f"{argv[0]}: no end in {READ_SECONDS:g} s") from error
        if argv[0] != "rpm" and ran.code != 0:
            raise HostError(
                f"{' '.join(argv)}: exit status {ran.code}: {ran.output[-OUTPUT_CHARS:]}; packages"
                " are held by dnf's plugin versionlock: install python3-dnf-plugin-versionlock"
            )
        return ran.output


def _named(wanted: Sequence[PackageWanted]) -> list[str]:
    return [f"{package.name}-{package.version}" for package in wanted]


def plain(version: str) -> str:
    """An epoch of 0 is not written."""
    return version.removeprefix("0:")


def listed(output: str) -> dict[str, list[str]]:
    """Versions by name, from what rpm shows of them as SHOWN."""
    known: dict[str, list[str]] = {}
    for line in output.splitlines():
        name, tab, version = line.partition("\t")
        if tab:
            known.setdefault(name, []).append(plain(version))
    return known


def locks_of(name: str, locks: Sequence[str]) -> list[str]:
    """Those of versionlock for this package, NAME-EPOCH:VERSION-RELEASE.ARCH or a pattern of it."""
    return [lock for lock in locks if re.match(rf"{re.escape(name)}-(?:\d+:)?\d", lock)]


def locked(name: str, version: str, locks: Sequence[str]) -> bool:
    """Whether one of them keeps the package at this version."""
    shown = [f"{name}-{version}", _lock(name, version).removesuffix(".*")]
    return any(
        fnmatchcase(text, lock)
        for lock in locks_of(name, locks)
        for each in shown
        for text in (each, f"{each}.any")
    )


def _lock(name: str, version: str) -> str:
    return f"{name}-{version if ':' in version else f'0:{version}'}.*"


def _make_snapshot(name: str, versions: Sequence[str], locks: Sequence[str]) -> PackageSnapshot:
    version = versions[-1] if versions else ""
    return PackageSnapshot(version, locked(name, version, locks), len(versions) > 1)
