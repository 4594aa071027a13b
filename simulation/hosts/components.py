"""A host in memory that implements the component ports, for the demo and for tests.

It carries out every request and can be made to fail: a version whose service crashes, a package
that no repository has, a package lock that is held, a file that somebody edited. It takes a few
kilobytes, so hundreds of hosts fit into one process. It passes the contract of the real ports
(tests/hosts/component_contract.py).
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from agent.components.ports import (
    Artefact,
    ComponentPorts,
    FileSnapshot,
    PackageSnapshot,
    PackageWanted,
    TreeSnapshot,
    UnitSnapshot,
)
from agent.host import HostError, NoSuchUnit
from agent.host.ports import CommandResult

UNIT_FOLDERS = ("/etc/systemd/system", "/usr/lib/systemd/system")


@dataclass
class SimulatedPackages:
    """The package manager of a host.

    missing: (name, version) of packages that no repository has.
    cut_short: how many of the next installs are interrupted and leave packages half-configured.
    locked: whether another process holds the lock for longer than any timeout.
    brings: package name to the units that the package starts, as Debian packages do.
    needs: (name, version) of a package to the names of its dependencies.
    unasked: packages that were installed as dependencies.
    """

    packages: dict[str, PackageSnapshot] = field(default_factory=dict)
    missing: set[tuple[str, str]] = field(default_factory=set)
    staged: set[tuple[str, str]] = field(default_factory=set)
    cut_short: int = 0
    locked: bool = False
    brings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    needs: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    unasked: set[str] = field(default_factory=set)
    installs: int = 0
    started: Callable[[str], None] = lambda unit: None
    removed: Callable[[str], None] = lambda unit: None

    async def read_packages(self, names: Sequence[str]) -> Mapping[str, PackageSnapshot]:
        return {name: self.packages.get(name, PackageSnapshot()) for name in names}

    async def stage(self, wanted: Sequence[PackageWanted], lock_wait: float) -> None:
        for package in wanted:
            if (package.name, package.version) in self.missing:
                raise HostError(f"package {package.name} has no version {package.version} here")
            self.staged.add((package.name, package.version))

    async def install(self, wanted: Sequence[PackageWanted], lock_wait: float) -> None:
        self._unlocked(lock_wait)
        await self.stage(wanted, lock_wait)
        self.installs += 1
        broken, self.cut_short = self.cut_short > 0, max(0, self.cut_short - 1)
        for package in wanted:
            for name in self.needs.get((package.name, package.version), ()):
                if name not in self.packages:
                    self.packages[name] = PackageSnapshot("1")
                    self.unasked.add(name)
            self.unasked.discard(package.name)
            pinned = self.packages.get(package.name, PackageSnapshot()).held
            self.packages[package.name] = PackageSnapshot(package.version, pinned, broken)
            for unit in () if broken else self.brings.get(package.name, ()):
                self.started(unit)
        if broken:
            raise HostError("the package manager was ended by signal 9")

    async def remove(self, names: Sequence[str], lock_wait: float, *, purge: bool) -> None:
        self._unlocked(lock_wait)
        for name in names:
            if self.packages.pop(name, None) is not None:
                for unit in self.brings.get(name, ()):
                    self.removed(unit)

    async def hold(self, names: Sequence[str], *, on: bool) -> None:
        for name in names:
            if name not in self.packages:
                raise HostError(f"package {name} is not installed, so it cannot be held")
            self.packages[name] = replace(self.packages[name], held=on)

    async def along(self, wanted: Sequence[PackageWanted]) -> Sequence[str]:
        needed = [self.needs.get((package.name, package.version), ()) for package in wanted]
        coming = [name for names in needed for name in names]
        return [name for name in coming if name not in self.packages]

    async def automatic(self, names: Sequence[str]) -> frozenset[str]:
        return frozenset(names) & self.unasked

    async def set_automatic(self, names: Sequence[str]) -> None:
        self.unasked |= set(names)

    async def remove_unneeded(self, names: Sequence[str], lock_wait: float) -> None:
        there = [(name, state.version) for name, state in self.packages.items()]
        needed = {name for package in there for name in self.needs.get(package, ())}
        unneeded = [name for name in names if name in self.unasked and name not in needed]
        await self.remove(unneeded, lock_wait, purge=True)

    def _unlocked(self, lock_wait: float) -> None:
        if self.locked:
            raise HostError(f"the package database stays locked for more than {lock_wait:g} s")


@dataclass
class SimulatedTrees:
    """Directory trees of artefacts.

    missing: sources that cannot be fetched.
    changed: destination to the files in it that somebody has edited.
    """

    trees: dict[str, str] = field(default_factory=dict)
    staged: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    changed: dict[str, tuple[str, ...]] = field(default_factory=dict)

    async def stage(self, artefact: Artefact) -> None:
        if artefact.source in self.missing:
            raise HostError(f"{artefact.source}: 404 Not Found")
        self.staged.add(artefact.digest)

    async def read_tree(self, dest: str) -> TreeSnapshot:
        return TreeSnapshot(self.trees.get(dest, ""), self.changed.get(dest, ()))

    async def install(self, artefact: Artefact) -> None:
        if artefact.digest not in self.staged:
            raise HostError(f"{artefact.source} is not staged")
        self.trees[artefact.dest] = artefact.digest
        self.changed.pop(artefact.dest, None)

    async def remove(self, dest: str, keep: Collection[str], *, back: bool) -> None:
        self.trees.pop(dest, None)
        self.changed.pop(dest, None)


@dataclass
class SimulatedFiles:
    """The files of a host.

    full: whether writes fail because the disk is full.
    on_change: called with each path that is written or removed.
    """

    files: dict[str, FileSnapshot] = field(default_factory=dict)
    full: bool = False
    writes: int = 0
    on_change: Callable[[str], None] = lambda path: None

    async def read(self, path: str) -> FileSnapshot | None:
        return self.files.get(path)

    async def write(self, path: str, content: bytes, mode: str, owner: str) -> None:
        if self.full:
            raise HostError(f"{path}: No space left on device")
        self.writes += 1
        self.edit(path, content, mode, owner)

    async def remove(self, path: str) -> None:
        if self.files.pop(path, None) is not None:
            self.on_change(path)

    async def missing_folders(self, path: str) -> Sequence[str]:
        """Return nothing, since folders are not simulated."""
        return ()

    async def remove_empty(self, folders: Sequence[str]) -> None:
        return

    def edit(self, path: str, content: bytes, mode: str = "0644", owner: str = "root:root") -> None:
        """Change a file as a user of the host would."""
        self.files[path] = FileSnapshot(content, mode, owner)
        self.on_change(path)


@dataclass
class SimulatedUnits:
    """The units of a host.

    files: the files among which unit files may be written.
    units: units that packages or a test have created.
    healthy: whether a unit that starts now stays active; else it fails at once.
    """

    files: SimulatedFiles
    units: dict[str, UnitSnapshot] = field(default_factory=dict)
    healthy: Callable[[str], bool] = lambda unit: True
    starts: dict[str, int] = field(default_factory=dict)
    reloads: dict[str, int] = field(default_factory=dict)
    rereads: int = 0

    async def read_unit(self, name: str) -> UnitSnapshot:
        if name in self.units:
            return self.units[name]
        written = any(f"{folder}/{name}" in self.files.files for folder in UNIT_FOLDERS)
        return UnitSnapshot(written, "disabled" if written else "")

    async def set_enabled(self, name: str, *, on: bool) -> None:
        unit = await self._loaded(name)
        if unit.masked:
            raise HostError(f"unit {name} is masked")
        self.units[name] = replace(unit, enabled="enabled" if on else "disabled")

    async def set_masked(self, name: str, *, on: bool) -> None:
        unit = await self.read_unit(name)
        if on or unit.masked:
            self.units[name] = replace(unit, enabled="masked" if on else "disabled")

    async def reread(self) -> None:
        self.rereads += 1

    async def start(self, name: str, limit: float) -> None:
        if (await self._startable(name)).active != "active":
            self.run(name)

    async def stop(self, name: str, limit: float) -> None:
        unit = await self._loaded(name)
        self.units[name] = replace(unit, active="inactive", result="success")

    async def restart(self, name: str, limit: float) -> None:
        await self._startable(name)
        self.run(name)

    async def reload(self, name: str, limit: float) -> None:
        await self._startable(name)
        self.reloads[name] = self.reloads.get(name, 0) + 1

    def run(self, name: str) -> None:
        """Start a unit as a package's script does; a masked unit stays inactive."""
        unit = self.units.get(name, UnitSnapshot(True, "enabled"))
        if unit.masked:
            return
        self.starts[name] = self.starts.get(name, 0) + 1
        well = self.healthy(name)
        self.units[name] = replace(
            unit,
            active="active" if well else "failed",
            result="success" if well else "exit-code",
            invocation=str(self.starts[name]),
        )

    def lose(self, name: str) -> None:
        self.units.pop(name, None)

    async def _loaded(self, name: str) -> UnitSnapshot:
        if not (unit := await self.read_unit(name)).loaded:
            raise NoSuchUnit(f"unit {name} is not found on this host")
        return unit

    async def _startable(self, name: str) -> UnitSnapshot:
        if (unit := await self._loaded(name)).masked:
            raise NoSuchUnit(f"unit {name} is masked on this host")
        return unit


@dataclass
class SimulatedRunner:
    """Runs programs.

    answers: the result of a program by its argv; all other programs exit with 0.
    """

    answers: dict[tuple[str, ...], CommandResult] = field(default_factory=dict)
    ran: list[tuple[str, ...]] = field(default_factory=list)

    async def run(self, argv: Sequence[str], limit: float, name: str = "") -> CommandResult:
        self.ran = [*self.ran[-99:], tuple(argv)]
        return self.answers.get(tuple(argv), CommandResult(0, ""))


class SimulatedWatch:
    def __init__(self) -> None:
        self._followed: frozenset[str] = frozenset()
        self._changed: set[str] = set()
        self._news = asyncio.Event()

    def follow(self, paths: Collection[str]) -> None:
        self._followed = frozenset(paths)

    def happened(self, path: str) -> None:
        folder = str(PurePosixPath(path).parent)
        if path in self._followed or folder in self._followed:
            self._changed.add(path)
            self._news.set()

    async def changed(self) -> set[str]:
        await self._news.wait()
        self._news.clear()
        names, self._changed = self._changed, set()
        return names


class SimulatedComponents:
    """The components of one host.

    crashing: unit to the (package, version) or ("", artefact digest) with which it fails.
    """

    def __init__(self) -> None:
        self.crashing: dict[str, set[tuple[str, str]]] = {}
        self.watch = SimulatedWatch()
        self.files = SimulatedFiles(on_change=self.watch.happened)
        self.units = SimulatedUnits(self.files, healthy=self._healthy)
        self.packages = SimulatedPackages(started=self.units.run, removed=self.units.lose)
        self.trees = SimulatedTrees()
        self.runner = SimulatedRunner()

    def _healthy(self, unit: str) -> bool:
        there = {(name, state.version) for name, state in self.packages.packages.items()}
        there |= {("", digest) for digest in self.trees.trees.values()}
        return not there & self.crashing.get(unit, set())

    def ports(self) -> ComponentPorts:
        packages = {"apt": self.packages, "dnf": self.packages}
        return ComponentPorts(packages, self.trees, self.files, self.units, self.runner, self.watch)
