"""Packages of Red Hat and derivatives, through dnf with its plugin versionlock, and rpm.

dnf waits for its lock without a limit, so the time limit of the whole step applies. An rpm database
    that an interrupted transaction left with two versions of a package is not repaired: the right
    version is not known here, and the error names the command for the repair.
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
"""Option that keeps the agent's own lock from blocking the agent."""


class DnfPackages:
    """Implements agent.components.ports.PackageManager.

    Changed configuration files stay; rpm puts the new ones beside them as .rpmnew.
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
        """Install with `dnf install`, which upgrades or downgrades to an exact version."""
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
        """Remove with rpm, which refuses if other packages depend on one; dnf would remove those
        too.

        Changed configuration files stay as .rpmsave, whatever the value of `purge`.
        """
        installed = await self.read_packages(names)
        there = [name for name in names if installed[name].version]
        if there:
            argv = ["rpm", "--erase", *there]
            await self._patient.checked("rpm-erase", argv, WORK_SECONDS, lock_wait)

    async def hold(self, names: Sequence[str], *, on: bool) -> None:
        """Set or remove the lock of each package.

        A lock on another version is no hold, as dnf would go to that version. It is replaced,
        because versionlock adds no lock to a package that has one. Exclusions stay unchanged.
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
        """Return no packages: packages that were installed along with others stay."""
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
        """Return rpm's output. Its exit status is the number of unknown packages."""
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
    """Return the version without an epoch of 0."""
    return version.removeprefix("0:")


def listed(output: str) -> dict[str, list[str]]:
    """Parse rpm's output in the format SHOWN: versions by name."""
    known: dict[str, list[str]] = {}
    for line in output.splitlines():
        name, tab, version = line.partition("\t")
        if tab:
            known.setdefault(name, []).append(plain(version))
    return known


def locks_of(name: str, locks: Sequence[str]) -> list[str]:
    """Return versionlock's locks of this package: NAME-EPOCH:VERSION-RELEASE.ARCH or a pattern
    of it.
    """
    return [lock for lock in locks if re.match(rf"{re.escape(name)}-(?:\d+:)?\d", lock)]


def locked(name: str, version: str, locks: Sequence[str]) -> bool:
    """Whether one of the locks holds the package at this version."""
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
