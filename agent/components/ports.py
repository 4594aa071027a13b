"""What the engine of components needs of a host, one small port for each subject.

`agent.host.real` has those of the machine we run on, `simulation.hosts.components` a host in memory
for the demo and for tests. Each method looks at the host anew and each act may be repeated: who is
killed asks again and ends at the same place. Acts outlive the agent: what it began goes on, and a
second call for the same waits for the first. Every method raises HostError when the host does not
do or tell what is asked; Contraindicated when it must not be done at all, so that a retry is no
use.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.host.ports import CommandResult

MOST_BYTES = 2 * 1024 * 1024
"""Of a file that a component owns; a ConfigMap holds half of it."""


@dataclass(frozen=True, slots=True)
class PackageWanted:
    """version  exactly as the package manager writes it"""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class PackageSnapshot:
    """version  "" if it is not installed; what is only half there has one, and is broken
    held     whether the package manager leaves it alone
    broken   half-installed, unpacked, half-configured: not to be relied on
    """

    version: str = ""
    held: bool = False
    broken: bool = False


class PackageManager(Protocol):
    """A package manager. `lock_wait`: seconds for its lock, that others may hold."""

    async def read_packages(self, names: Sequence[str]) -> Mapping[str, PackageSnapshot]:
        """For each name. Needs no lock."""
        ...

    async def stage(self, wanted: Sequence[PackageWanted], lock_wait: float) -> None:
        """Download them and what they need, and install nothing."""
        ...

    async def install(self, wanted: Sequence[PackageWanted], lock_wait: float) -> None:
        """Exactly these versions in one step, newer or older than what is there, held or not.

        A database that an earlier run left half-configured is repaired first. Configuration files
        that were changed on the host stay. Nothing is removed for it: that is refused.
        """
        ...

    async def remove(self, names: Sequence[str], lock_wait: float, *, purge: bool) -> None:
        """purge: with their configuration. Those that are not there are no error."""
        ...

    async def hold(self, names: Sequence[str], *, on: bool) -> None: ...

    async def along(self, wanted: Sequence[PackageWanted]) -> Sequence[str]:
        """Which others an install would bring, as these need them. Changes nothing."""
        ...

    async def automatic(self, names: Sequence[str]) -> frozenset[str]:
        """Those that came because others needed them."""
        ...

    async def set_automatic(self, names: Sequence[str]) -> None: ...

    async def remove_unneeded(self, names: Sequence[str], lock_wait: float) -> None:
        """Of packages that came along, those that nothing else needs, with their configuration."""
        ...


LINKS_OUT, SET_USER_ID = "LinksOut", "SetUserID"
"""As `allow` of MachineComponents has them."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """A tree of files that is pinned by a digest.

    source  https://... of a tarball, or REGISTRY/REPOSITORY@sha256:... of an OCI artefact
    digest  64 hex digits: of the tarball, or of the manifest
    dest    folder whose files are ours alone as far as the artefact has them
    allow   what it may bring that is refused otherwise: LINKS_OUT, SET_USER_ID
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
    """digest   of the artefact that was put there last; "" for none
    changed  files of it that are gone or not as they were, at most 10
    """

    digest: str = ""
    changed: tuple[str, ...] = ()


class Trees(Protocol):
    async def stage(self, artefact: Artefact) -> None:
        """Download, compare the digest, unpack beside; a second call finds it there."""
        ...

    async def read_tree(self, dest: str) -> TreeSnapshot: ...

    async def install(self, artefact: Artefact) -> None:
        """Put the staged files in their places, each at once; those that only the one before had
        go. Raises HostError when it was not staged."""
        ...

    async def remove(self, dest: str, keep: Collection[str], *, back: bool) -> None:
        """Take away what we put there, except under the paths `keep`. Nothing there is no error.

        back: files of others that ours took the place of come back.
        """
        ...


@dataclass(frozen=True, slots=True)
class FileSnapshot:
    """content  no more than its first MOST_BYTES + 1
    mode     as "0644"
    owner    as "root:root"; a number where the host has no name for it
    """

    content: bytes
    mode: str
    owner: str


class HostFiles(Protocol):
    """Paths are the host's. Links are followed except in the last place, where they are refused."""

    async def read(self, path: str) -> FileSnapshot | None:
        """None: there is none."""
        ...

    async def write(self, path: str, content: bytes, mode: str, owner: str) -> None:
        """The old file or the new one, whenever the power goes; missing folders are made."""
        ...

    async def remove(self, path: str) -> None:
        """Nothing if it is gone."""
        ...

    async def missing_folders(self, path: str) -> Sequence[str]:
        """Which a write of `path` would make, the outermost first."""
        ...

    async def remove_empty(self, folders: Sequence[str]) -> None:
        """Those that are there and empty; an inner one comes after its outer one."""
        ...


@dataclass(frozen=True, slots=True)
class UnitSnapshot:
    """loaded   whether systemd has a unit of this name
    enabled     as `systemctl is-enabled` says: enabled, disabled, static, masked ...; "" unknown
    active      active, reloading, inactive, failed, activating or deactivating
    invocation  another one after each start; "" for none
    oneshot     a service that does its work and ends
    result      success, or why it failed
    stale       its files changed since systemd read them
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
    """`limit`: seconds until systemd's job is withdrawn and HostError is raised."""

    async def read_unit(self, name: str) -> UnitSnapshot: ...

    async def set_enabled(self, name: str, *, on: bool) -> None: ...

    async def set_masked(self, name: str, *, on: bool) -> None: ...

    async def reread(self) -> None:
        """After unit files or drop-ins changed (`daemon-reload`)."""
        ...

    async def start(self, name: str, limit: float) -> None:
        """Also forgets earlier failures, that would be held against it."""
        ...

    async def stop(self, name: str, limit: float) -> None: ...

    async def restart(self, name: str, limit: float) -> None:
        """Starts it if it was stopped, and forgets earlier failures."""
        ...

    async def reload(self, name: str, limit: float) -> None:
        """Restarts it where it cannot reload."""
        ...


class CommandRunner(Protocol):
    async def run(self, argv: Sequence[str], limit: float, name: str = "") -> CommandResult:
        """Run a program of the host to its end; no shell reads argv.

        name  of this step (component, revision, attempt, step): a program of the same name and argv
              that an earlier life of the agent began, and that still runs, is waited for instead
              of begun once more. "": for what only reads, such as a check.

        Raises TimeoutError when it was ended after `limit` seconds.
        """
        ...


class ObjectWatch(Protocol):
    def follow(self, paths: Collection[str]) -> None:
        """These and no others from now on. What cannot be watched is left to the scan."""
        ...

    async def changed(self) -> set[str]:
        """Waits until something happened at some of the paths followed; some may be as before."""
        ...


@dataclass(frozen=True, slots=True)
class ComponentPorts:
    """packages  by type of source: apt, dnf"""

    packages: Mapping[str, PackageManager]
    trees: Trees
    files: HostFiles
    units: Units
    runner: CommandRunner
    watch: ObjectWatch


@dataclass(frozen=True, slots=True)
class Installed:
    """What a source has on the host.

    version  of the component where it is wholly as this source says; else what the host tells: the
             package's own version, `sha256:...` of another artefact; "" for nothing
    exact    whether all of it is as the source says, unbroken
    pinned   whether it is held where the source wants it so; True where nothing can be held
    broken   why it cannot be relied on, such as "runc is half-configured"; "" if it can
    changed  files of it that somebody changed
    """

    version: str = ""
    exact: bool = False
    pinned: bool = True
    broken: str = ""
    changed: tuple[str, ...] = field(default=())


class ComponentFileSource(Protocol):
    """Where one component's files come from; agent.components.sources makes them."""

    async def read_installed(self) -> Installed: ...

    async def stage(self) -> None:
        """Download what `install` needs. May be repeated, and changes nothing that runs."""
        ...

    async def install(self) -> None:
        """Bring the host to exactly this version, from whatever is there, and hold it if wanted."""
        ...

    async def remove(self, keep: Collection[str], *, purge: bool, back: bool = False) -> None:
        """keep   paths whose data stays
        purge  configuration goes as well
        back   files of others that an artefact took the place of come back; packages and scripts
               have none
        """
        ...

    async def hold(self) -> None:
        """Set the hold again that somebody took away. Nothing where nothing can be held."""
        ...
