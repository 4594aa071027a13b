"""Packages of Debian and derivatives, through dpkg and apt-get without interaction.

The same rules apply to all hosts:

- A configuration file that was changed on the host stays unchanged. An unchanged one is replaced by
  that of the new version.
- Recommended packages are not installed: a component lists what it needs.
- Nothing is removed for an install. apt-get would otherwise remove conflicting packages.
- needrestart does not restart services: the holder of the permit decides what restarts.
- Packages are kept in a folder of the agent until two versions later, so that a rollback does not
  need a repository that still has the old version.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from agent.components.ports import CommandRunner, PackageSnapshot, PackageWanted
from agent.host import HostError
from agent.host.real.components.locks import OUTPUT_CHARS, Patient

ARCHIVES = "/var/cache/kubenode-agent/apt"
ARRIVING = f"{ARCHIVES}/arriving"
"""Folder of partial downloads, which apt-get resumes."""
UPDATES = "/var/lib/dpkg/updates"
"""Folder where dpkg notes finished work that it has not yet written to its database. Files stay
there if dpkg was ended.
"""
READ_SECONDS = 60.0
WORK_SECONDS = 1800.0
"""Seconds beyond the wait for the lock: downloads on a slow line, and maintainer scripts."""
HOLD_LOCK_SECONDS = 300.0
_QUIET = ("DEBIAN_FRONTEND=noninteractive", "APT_LISTCHANGES_FRONTEND=none")
QUIET = ("env", *_QUIET, "NEEDRESTART_SUSPEND=1")
OURS_STAY = ("--force-confdef", "--force-confold")
_FIELDS = ("Package", "Version", "db:Status-Want", "db:Status-Status", "db:Status-Eflag")
SHOWN = "\\t".join(f"${{{field}}}" for field in _FIELDS) + "\\n"
LOCKED = re.compile(
    r"could not get lock|lock was locked|is locked by another process|unable to lock", re.IGNORECASE
)
_NEW = re.compile(r"^Inst (\S+) \(", re.MULTILINE)
"""Output of `apt-get --simulate` for a new package. For an installed one, its version follows."""
_GOING = re.compile(r"^(?:Remv|Purg) (\S+) ", re.MULTILINE)
_ABSENT = ("not-installed", "config-files")


class DpkgPackages:
    """Implements agent.components.ports.PackageManager."""

    def __init__(self, runner: CommandRunner, patient: Patient | None = None) -> None:
        self._runner = runner
        self._patient = patient or Patient(runner, LOCKED)

    async def read_packages(self, names: Sequence[str]) -> Mapping[str, PackageSnapshot]:
        output = await self._read(["dpkg-query", "--show", f"--showformat={SHOWN}", *names], (0, 1))
        known = listed(output)
        return {name: known.get(name, PackageSnapshot()) for name in names}

    async def stage(self, wanted: Sequence[PackageWanted], lock_wait: float) -> None:
        """Download the packages without the lock, whatever the state of the database.

        What is staged may repair a broken database. Only the named packages are fetched, so a
        component names all that it needs.
        """
        await self._read(["mkdir", "-p", ARRIVING])
        await self._drop_old(wanted)
        archives = await self._archives()
        missing = [package for package in wanted if (package.name, package.version) not in archives]
        if not missing:
            return
        argv = [
            "env",
            f"--chdir={ARRIVING}",
            *_QUIET,
            "apt-get",
            "--quiet",
            "download",
            *_named(missing),
        ]
        ran = await self._patient.run("apt-stage", argv, WORK_SECONDS, lock_wait)
        if ran.code != 0:
            update = [*_apt(lock_wait), "update"]
            await self._patient.checked("apt-update", update, WORK_SECONDS, lock_wait)
            await self._patient.checked("apt-stage", argv, WORK_SECONDS, lock_wait)
        move = ["-exec", "mv", "-f", f"--target-directory={ARCHIVES}", "{}", "+"]
        await self._read(["find", ARRIVING, "-type", "f", "-name", "*.deb", *move])

    async def install(self, wanted: Sequence[PackageWanted], lock_wait: float) -> None:
        await self._repair(lock_wait)
        archives = await self._archives()
        await self._mend(wanted, archives, lock_wait)
        what = [archives.get((w.name, w.version)) or f"{w.name}={w.version}" for w in wanted]
        argv = [*_apt(lock_wait), *_PINS, "--no-remove", "install", *what]
        await self._patient.checked("apt-install", argv, WORK_SECONDS, lock_wait)
        installed = await self.read_packages([package.name for package in wanted])
        for package in wanted:
            there = installed[package.name]
            if there.version != package.version or there.broken:
                state = f"is {there.version or 'not installed'}"
                raise HostError(
                    f"package {package.name} {state}{', broken,' if there.broken else ''} after the"
                    f" install of {package.version}"
                )

    async def remove(self, names: Sequence[str], lock_wait: float, *, purge: bool) -> None:
        """Remove with dpkg, which refuses if other packages depend on one; apt-get would remove
        those too.
        """
        await self._repair(lock_wait)
        verb = "--purge" if purge else "--remove"
        argv = [*QUIET, "dpkg", *OURS_STAY, verb, *names]
        await self._patient.checked("dpkg-remove", argv, WORK_SECONDS, lock_wait)

    async def hold(self, names: Sequence[str], *, on: bool) -> None:
        argv = ["apt-mark", "hold" if on else "unhold", *names]
        await self._patient.checked("apt-mark", argv, READ_SECONDS, HOLD_LOCK_SECONDS)

    async def along(self, wanted: Sequence[PackageWanted]) -> Sequence[str]:
        archives = await self._archives()
        what = [archives.get((w.name, w.version)) or f"{w.name}={w.version}" for w in wanted]
        output = await self._read(
            [*_apt(0.0), *_PINS, "--no-remove", "--simulate", "install", *what]
        )
        named = {package.name for package in wanted}
        return [name for name in _NEW.findall(output) if name not in named]

    async def automatic(self, names: Sequence[str]) -> frozenset[str]:
        output = await self._read(["apt-mark", "showauto", *names]) if names else ""
        return frozenset(output.split())

    async def set_automatic(self, names: Sequence[str]) -> None:
        argv = ["apt-mark", "auto", *names]
        await self._patient.checked("apt-mark", argv, READ_SECONDS, HOLD_LOCK_SECONDS)

    async def remove_unneeded(self, names: Sequence[str], lock_wait: float) -> None:
        output = await self._read([*_apt(0.0), "--simulate", "autoremove"])
        unneeded = [name for name in _GOING.findall(output) if name in names]
        if unneeded:
            await self.remove(unneeded, lock_wait, purge=True)

    async def _repair(self, lock_wait: float) -> None:
        """Complete an interrupted operation of dpkg; no effect if there was none."""
        audit = await self._read(["dpkg", "--audit"], (0, 1))
        notes = await self._read(["find", UPDATES, "-type", "f", "-name", "[0-9]*"])
        if not audit and not notes:
            return
        argv = [*QUIET, "dpkg", *OURS_STAY, "--configure", "--pending"]
        ran = await self._patient.run("dpkg-configure", argv, WORK_SECONDS, lock_wait)
        if ran.code != 0:
            # The next request may repair it; otherwise its own error is reported.
            argv = [*_apt(lock_wait), "--no-remove", "--fix-broken", "install"]
            await self._patient.run("apt-fix", argv, WORK_SECONDS, lock_wait)

    async def _mend(
        self,
        wanted: Sequence[PackageWanted],
        archives: Mapping[tuple[str, str], str],
        lock_wait: float,
    ) -> None:
        """Unpack the packages again whose unpacking was interrupted.

        Configuring them is of no use, and apt-get considers one of the right version installed.
        """
        installed = await self.read_packages([package.name for package in wanted])
        broken = [(w.name, w.version) for w in wanted if installed[w.name].broken]
        if paths := [archives[key] for key in broken if key in archives]:
            argv = [*QUIET, "dpkg", *OURS_STAY, "--force-hold", "--install", *paths]
            await self._patient.run("dpkg-install", argv, WORK_SECONDS, lock_wait)

    async def _archives(self) -> dict[tuple[str, str], str]:
        """Return the downloaded packages: path by name and version."""
        argv = ["find", ARCHIVES, "-maxdepth", "1", "-type", "f", "-name", "*.deb"]
        paths = (await self._read(argv, (0, 1))).splitlines()
        known = ((archive_of(path), path) for path in paths)
        return {key: path for key, path in known if key is not None}

    async def _drop_old(self, wanted: Sequence[PackageWanted]) -> None:
        """Remove packages of the staged names that are neither wanted nor installed."""
        installed = await self.read_packages([package.name for package in wanted])
        retained = {(package.name, package.version) for package in wanted}
        retained |= {(name, there.version) for name, there in installed.items()}
        archives = await self._archives()
        old = [p for key, p in archives.items() if key[0] in installed and key not in retained]
        if old:
            await self._read(["rm", "-f", "--", *old])

    async def _read(self, argv: Sequence[str], good: Collection[int] = (0,)) -> str:
        try:
            ran = await self._runner.run(argv, READ_SECONDS)
        except TimeoutError as error:
            raise HostError(f"{argv[0]}: no end in {READ_SECONDS:g} s") from error
        if ran.code not in good:
            raise HostError(f"{argv[0]}: exit status {ran.code}: {ran.output[-OUTPUT_CHARS:]}")
        return ran.output


_PINS = ("--allow-downgrades", "--allow-change-held-packages")


def _apt(lock_wait: float) -> list[str]:
    given = {
        "DPkg::Lock::Timeout": f"{lock_wait:.0f}",
        "APT::Install-Recommends": "false",
        "Dpkg::Use-Pty": "0",
        # The cache of apt counts as valid while size and second of dpkg's status are unchanged.
        # Of two installs within one second, apt would miss the second one.
        "Dir::Cache::pkgcache": "",
    }
    options = [f"--option={name}={value}" for name, value in given.items()]
    options += [f"--option=Dpkg::Options::={word}" for word in OURS_STAY]
    return [*QUIET, "apt-get", "--yes", "--quiet", *options]


def _named(wanted: Sequence[PackageWanted]) -> list[str]:
    return [f"{package.name}={package.version}" for package in wanted]


def listed(output: str) -> dict[str, PackageSnapshot]:
    """Parse the output of dpkg-query in the format SHOWN: packages by name."""
    known: dict[str, PackageSnapshot] = {}
    for line in output.splitlines():
        fields = line.split("\t")
        if len(fields) != len(_FIELDS):
            continue  # a message about an unknown name
        name, version, want, status, error = fields
        absent = status in _ABSENT
        broken = not absent and (status != "installed" or error != "ok")
        package = PackageSnapshot("" if absent else version or "0", want == "hold", broken)
        if name not in known or package.version:
            known[name] = package
    return known


def archive_of(path: str) -> tuple[str, str] | None:
    """Return name and version of a downloaded package; apt writes NAME_VERSION_ARCH.deb."""
    parts = path.rpartition("/")[2].removesuffix(".deb").split("_")
    return (parts[0], parts[1].replace("%3a", ":")) if len(parts) == 3 else None
