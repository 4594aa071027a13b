"""A restart that installed packages wait for, as package managers record it.

Those of Debian and Ubuntu create /run/reboot-required and list the packages in
/run/reboot-required.pkgs. On hosts with dnf, `needs-restarting -r` compares the times of packages
and of the boot. Sources: kured (Apache-2.0), --reboot-sentinel and --reboot-sentinel-command;
Debian's unattended-upgrades; dnf-plugins-core, plugins/needs_restarting.py.
"""

from agent.detectors.checks import Finding, Findings
from agent.detectors.checks.detector import Reading
from agent.detectors.checks.programs import Runner
from agent.host.files import HostRoot
from agent.probes import CannotAnswer

CONDITION = "RebootRequired"
FAULT, NO_FAULT = "PackagesNeedReboot", "NoRebootRequired"
MAX_BYTES = 4096
"""Bytes of the list of packages that are reported."""
MAX_NAMES = 5
PROGRAM = "/usr/bin/needs-restarting"
PROGRAM_SECONDS = 60.0
PROGRAM_BYTES = 64 * 1024
PROGRAM_FAULT = "Reboot is required"
"""Text of the answer. The exit status 1 alone may also be an error of dnf."""


class RebootCheck:
    """Implements Check: looks for the file whose existence asks for a restart, then asks dnf."""

    name = "reboot"
    conditions = (CONDITION,)

    def __init__(self, file: str, programs: Runner, root: str = "/") -> None:
        self._file, self._programs, self._files = file, programs, HostRoot(root)
        self._reading = Reading(self.name, self.conditions, self._read)

    async def inspect(self) -> Findings:
        findings = await self._reading.inspect()
        if findings[CONDITION].faulty or not self._files.exists(PROGRAM):
            return findings
        return {CONDITION: await self._ask_dnf()}

    def _read(self) -> Findings:
        """Raises OSError when the file's state cannot be determined."""
        try:
            self._files.stat(self._file)
        except FileNotFoundError:
            return {CONDITION: Finding(False, NO_FAULT, f"{self._file} does not exist")}
        message = f"{self._file} exists: {_summarize(self._list_packages())}"
        return {CONDITION: Finding(True, FAULT, message)}

    def _list_packages(self) -> list[str]:
        """Return the names in the list next to the file; none without a list."""
        try:
            names = self._files.read_bytes(f"{self._file}.pkgs")[:MAX_BYTES]
        except FileNotFoundError:
            return []
        return names.decode(errors="replace").split()

    async def _ask_dnf(self) -> Finding:
        argv = ("/usr/bin/env", "LC_ALL=C", PROGRAM, "-r")
        ran = await self._programs.run(argv, PROGRAM_SECONDS, PROGRAM_BYTES)
        if ran.code == 0:
            return Finding(False, NO_FAULT, f"{PROGRAM} -r reports none")
        if ran.code == 1 and PROGRAM_FAULT in ran.output:
            names = [line[4:] for line in ran.output.splitlines() if line.startswith("  * ")]
            return Finding(True, FAULT, f"{PROGRAM} -r reports {_summarize(names)}")
        raise CannotAnswer(f"{PROGRAM} -r: {ran.why or f'exit status {ran.code}: {ran.output}'}")


def _summarize(packages: list[str]) -> str:
    """Name packages once each; say so where there is no list."""
    names = sorted(set(packages))
    if not names:
        return "no list of packages"
    more = ", …" if len(names) > MAX_NAMES else ""
    return f"packages {', '.join(names[:MAX_NAMES])}{more}"
