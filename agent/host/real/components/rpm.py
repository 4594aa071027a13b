"""Packages of Red Hat and its kin: dnf with its plugin versionlock, and rpm.

dnf itself waits for its lock without end, so the time of the whole step bounds it. An rpm database
that an interrupted transaction left with a package in two versions is not repaired: which one is
right nobody here knows, and the error names the command that does it.
"""

import re
from collections.abc import Mapping, Sequence

from agent.components.ports import PackageFound, PackageWanted, Runner
from agent.host import HostError
from agent.host.real.components.locks import TOLD, Patient

READ_SECONDS = 60.0
WORK_SECONDS = 1800.0
LOCKED = re.compile(r"can't create transaction lock|waiting for process with pid", re.IGNORECASE)
SHOWN = "%{NAME}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n"
DNF = ("dnf", "--assumeyes", "--quiet", "--setopt=install_weak_deps=False")
UNLOCKED = "--disableplugin=versionlock"
"""Our own lock must not be in the way of us."""


class DnfPackages:
    """Implements agent.components.ports.Packages. Configuration files that were changed stay: rpm
    puts the new version's beside them as .rpmnew.
    """

    def __init__(self, runner: Runner, patient: Patient | None = None) -> None:
        self._runner = runner
        self._patient = patient or Patient(runner, LOCKED)

    async def found(self, names: Sequence[str]) -> Mapping[str, PackageFound]:
        ran = await self._read(["rpm", "--query", "--queryformat", SHOWN, *names])
        locks = await self._read(["dnf", "--quiet", "versionlock", "list"])
        versions, locked = listed(ran), locked_names(locks, names)
        return {
            name: PackageFound(
                there[-1] if (there := versions.get(name, [])) else "",
                name in locked,
                len(there) > 1,
            )
            for name in names
        }

    async def stage(self, wanted: Sequence[PackageWanted], lock_wait: float) -> None:
        argv = [*DNF, UNLOCKED, "--setopt=keepcache=True", "install", "--downloadonly"]
        await self._patient.checked("dnf-stage", [*argv, *_named(wanted)], WORK_SECONDS, lock_wait)

    async def install(self, wanted: Sequence[PackageWanted], lock_wait: float) -> None:
        """`dnf install` of an exact version goes to it upwards and downwards."""
        before = await self.found([one.name for one in wanted])
        if twice := sorted(name for name, there in before.items() if there.broken):
            raise HostError(
                f"the rpm database has {', '.join(twice)} in two versions, as after a transaction"
                " that was ended: run `dnf remove --duplicates`"
            )
        argv = [*DNF, UNLOCKED, "--setopt=keepcache=True", "install", *_named(wanted)]
        await self._patient.checked("dnf-install", argv, WORK_SECONDS, lock_wait)
        found = await self.found([one.name for one in wanted])
        for one in wanted:
            if found[one.name].version != one.version:
                there = found[one.name].version or "not installed"
                raise HostError(f"package {one.name} is {there} after the install of {one.version}")

    async def remove(self, names: Sequence[str], lock_wait: float, *, purge: bool) -> None:
        """By rpm, which refuses where others need one of them; dnf would take those too. What was
        changed of its configuration stays as .rpmsave, whatever `purge` says.
        """
        found = await self.found(names)
        there = [name for name in names if found[name].version]
        if there:
            argv = ["rpm", "--erase", *there]
            await self._patient.checked("rpm-erase", argv, WORK_SECONDS, lock_wait)

    async def hold(self, names: Sequence[str], *, on: bool) -> None:
        argv = ["dnf", "--quiet", "versionlock", "add" if on else "delete", *names]
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

    async def _read(self, argv: Sequence[str]) -> str:
        """rpm's exit status is the number of packages it does not know."""
        try:
            ran = await self._runner.run(argv, READ_SECONDS)
        except TimeoutError as error:
            raise HostError(f"{argv[0]}: no end in {READ_SECONDS:g} s") from error
        if argv[0] != "rpm" and ran.code != 0:
            raise HostError(
                f"{' '.join(argv)}: exit status {ran.code}: {ran.output[-TOLD:]}; packages are held"
                " by dnf's plugin versionlock: install python3-dnf-plugin-versionlock"
            )
        return ran.output


def _named(wanted: Sequence[PackageWanted]) -> list[str]:
    return [f"{one.name}-{one.version}" for one in wanted]


def plain(version: str) -> str:
    """An epoch of 0 is not written."""
    return version.removeprefix("0:")


def listed(said: str) -> dict[str, list[str]]:
    """Versions by name, from what rpm shows of them as SHOWN."""
    known: dict[str, list[str]] = {}
    for line in said.splitlines():
        name, tab, version = line.partition("\t")
        if tab:
            known.setdefault(name, []).append(plain(version))
    return known


def locked_names(said: str, names: Sequence[str]) -> set[str]:
    """Which of `names` versionlock lists: NAME-EPOCH:VERSION-RELEASE.* on a line."""
    locks = [line.strip() for line in said.splitlines() if not line.startswith("!")]
    return {
        name
        for name in names
        if any(re.match(rf"{re.escape(name)}-(?:\d+:)?\d", lock) for lock in locks)
    }
