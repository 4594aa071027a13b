"""Ports of a host that the component engine uses, one small port for each subject.

`agent.host.real` implements them for a real host. `simulation.hosts.components` has a host in
memory for the demo and for tests. Each read observes the host anew and each act is idempotent:
after a crash the caller repeats the call and gets the same result. Acts survive the agent. A second
call for the same act waits for the first. Every method raises HostError if the host does not do or
report what is requested, and Contraindicated if it must not be done at all, so that a retry is
useless.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.host.ports import CommandResult

MOST_BYTES = 2 * 1024 * 1024
"""Largest file that a component may own; a ConfigMap holds half of it."""


@dataclass(frozen=True, slots=True)
class PackageWanted:
    """A package to install. version: exactly as the package manager writes it."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class PackageSnapshot:
    """State of a package on the host.

    version: installed version; "" if it is not installed; a half-installed one has a version
    held: whether the package manager has a hold on it
    broken: half-installed, unpacked or half-configured
    """

    version: str = ""
    held: bool = False
    broken: bool = False


class PackageManager(Protocol):
    """A package manager. `lock_wait`: seconds to wait for its lock, which others may hold."""

    async def read_packages(self, names: Sequence[str]) -> Mapping[str, PackageSnapshot]:
        """Return the state of each named package. Needs no lock."""
        ...

    async def stage(self, wanted: Sequence[PackageWanted], lock_wait: float) -> None:
        """Download the packages and their dependencies. Installs nothing."""
        ...

    async def install(self, wanted: Sequence[PackageWanted], lock_wait: float) -> None:
        """Install exactly these versions in one step: an upgrade or a downgrade, held or not.

        A database that an interrupted run left half-configured is repaired first. Configuration
        files that were changed on the host stay. An install that would remove another package is
        refused.
        """
        ...

    async def remove(self, names: Sequence[str], lock_wait: float, *, purge: bool) -> None:
        """Remove packages; missing ones are no error. purge: with their configuration."""
        ...

    async def hold(self, names: Sequence[str], *, on: bool) -> None: ...

    async def along(self, wanted: Sequence[PackageWanted]) -> Sequence[str]:
        """Return which packages an install would add as dependencies. Changes nothing."""
        ...

    async def automatic(self, names: Sequence[str]) -> frozenset[str]:
        """Return those of `names` that were installed as dependencies."""
        ...

    async def set_automatic(self, names: Sequence[str]) -> None: ...

    async def remove_unneeded(self, names: Sequence[str], lock_wait: float) -> None:
        """Remove those of `names` that nothing else needs, with their configuration."""
        ...


LINKS_OUT, SET_USER_ID = "LinksOut", "SetUserID"
"""Values of `allow` in a MachineComponent."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """A tree of files that is pinned by a digest.

    source: https://... of a tarball, or REGISTRY/REPOSITORY@sha256:... of an OCI artefact
    digest: 64 hex digits, of the tarball or of the manifest
    dest: destination folder, in which the files of the artefact belong to the component
    allow: otherwise refused content that is allowed: LINKS_OUT, SET_USER_ID
    """

    source: str
    digest: str
    dest: str
    allow: frozenset[str] = frozenset()

    @property
    def oci(self) -> bool:
        return "://" not in self.source


@dataclass(frozen=True, slots=True)
class TreeSnapshot:
    """A tree on the host.

    digest: of the artefact that was installed last; "" for none
    changed: its files that are missing or changed, at most 10
    """

    digest: str = ""
    changed: tuple[str, ...] = ()


class Trees(Protocol):
    async def stage(self, artefact: Artefact) -> None:
        """Download the artefact, compare the digest, unpack it aside. Does nothing if it is
        staged.
        """
        ...

    async def read_tree(self, dest: str) -> TreeSnapshot: ...

    async def install(self, artefact: Artefact) -> None:
        """Move each staged file atomically to its place; remove files of the previous artefact
        only.

        Raises HostError if the artefact was not staged.
        """
        ...

    async def remove(self, dest: str, keep: Collection[str], *, back: bool) -> None:
        """Remove what the agent installed, except under the paths `keep`. A missing tree is no
        error.

        back: restore the files of others that the component's files replaced
        """
        ...


@dataclass(frozen=True, slots=True)
class FileSnapshot:
    """A file on the host.

    content: at most its first MOST_BYTES + 1 bytes
    mode: such as "0644"
    owner: such as "root:root"; a number where the host has no name for it
    """

    content: bytes
    mode: str
    owner: str


class HostFiles(Protocol):
    """Files of the host, by the host's paths. Links are followed, but refused as the last part."""

    async def read(self, path: str) -> FileSnapshot | None:
        """Return the file; None if it does not exist."""
        ...

    async def write(self, path: str, content: bytes, mode: str, owner: str) -> None:
        """Replace the file atomically, also across a power cut. Creates missing folders."""
        ...

    async def remove(self, path: str) -> None:
        """Remove the file. A missing file is no error."""
        ...

    async def missing_folders(self, path: str) -> Sequence[str]:
        """Return the folders that a write of `path` would create, outer ones first."""
        ...

    async def remove_empty(self, folders: Sequence[str]) -> None:
        """Remove those of `folders` that are empty. They are ordered outer ones first."""
        ...


@dataclass(frozen=True, slots=True)
class UnitSnapshot:
    """A systemd unit on the host.

    loaded: whether systemd has a unit of this name
    enabled: output of `systemctl is-enabled`, such as enabled, static or masked; "" if unknown
    active: active, reloading, inactive, failed, activating or deactivating
    invocation: identifier that changes with each start; "" for none
    oneshot: whether it is a service that does its work and ends
    result: success, or why it failed
    stale: whether its files changed since systemd read them
    """

    loaded: bool
    enabled: str = ""
    active: str = "inactive"
    invocation: str = ""
    oneshot: bool = False
    result: str = "success"
    stale: bool = False

    @property
    def masked(self) -> bool:
        return self.enabled.startswith("masked")


class Units(Protocol):
    """Units of the host. `limit`: seconds until the systemd job is cancelled and HostError
    raised.
    """

    async def read_unit(self, name: str) -> UnitSnapshot: ...

    async def set_enabled(self, name: str, *, on: bool) -> None: ...

    async def set_masked(self, name: str, *, on: bool) -> None: ...

    async def reread(self) -> None:
        """Let systemd read its unit files again (`daemon-reload`)."""
        ...

    async def start(self, name: str, limit: float) -> None:
        """Start the unit. Resets earlier failures first, which the start limit would count."""
        ...

    async def stop(self, name: str, limit: float) -> None: ...

    async def restart(self, name: str, limit: float) -> None:
        """Restart the unit, or start it if it is stopped. Resets earlier failures."""
        ...

    async def reload(self, name: str, limit: float) -> None:
        """Reload the unit, or restart it if it cannot reload."""
        ...


class CommandRunner(Protocol):
    async def run(self, argv: Sequence[str], limit: float, name: str = "") -> CommandResult:
        """Run a program of the host until it ends; no shell reads argv.

        name: of this step (component, revision, attempt, step). If an earlier process of the agent
            began a program of the same name and argv that still runs, wait for that one. "": for a
            program that only reads, such as a check.

        Raises TimeoutError if the program was ended after `limit` seconds.
        """
        ...


class ObjectWatch(Protocol):
    def follow(self, paths: Collection[str]) -> None:
        """Watch these paths instead of the earlier ones. The scan covers what cannot be watched."""
        ...

    async def changed(self) -> set[str]:
        """Wait for changes; return the paths that may have changed."""
        ...


@dataclass(frozen=True, slots=True)
class ComponentPorts:
    """All ports for components. packages: by type of source, apt or dnf."""

    packages: Mapping[str, PackageManager]
    trees: Trees
    files: HostFiles
    units: Units
    runner: CommandRunner
    watch: ObjectWatch


@dataclass(frozen=True, slots=True)
class Installed:
    """What a source has installed on the host.

    version: the component's version if the source is completely installed; else what the host has:
        another package version, or `sha256:...` of another artefact; "" for nothing
    exact: whether the host has exactly what the source says, unbroken
    pinned: whether packages are held as wanted; True where nothing can be held
    broken: why the installation is broken, such as "runc is half-configured"; "" if it is not
    changed: files that were changed on the host
    """

    version: str = ""
    exact: bool = False
    pinned: bool = True
    broken: str = ""
    changed: tuple[str, ...] = field(default=())


class ComponentFileSource(Protocol):
    """Source of one component's files; agent.components.sources creates it."""

    async def read_installed(self) -> Installed: ...

    async def stage(self) -> None:
        """Download what `install` needs. Idempotent; changes nothing that runs."""
        ...

    async def install(self) -> None:
        """Install exactly this version, whatever the host has, and hold it if wanted."""
        ...

    async def remove(self, keep: Collection[str], *, purge: bool, back: bool = False) -> None:
        """Remove what was installed.

        keep: paths that stay
        purge: remove the configuration too
        back: restore the files of others that an artefact replaced; packages and scripts replace
            none
        """
        ...

    async def hold(self) -> None:
        """Set a hold again that was removed. Does nothing where nothing can be held."""
        ...
