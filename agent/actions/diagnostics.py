"""CollectDiagnostics: what a person will ask for, saved before a repair wipes it away.

A bundle is one compressed folder on the host with a text file for each part, without secrets as
far as they can be told. Bundles are few and small, the oldest goes first; on a disk that is nearly
full nothing is saved.
"""

import io
import os
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agent.actions.checks import run
from agent.host import HostError
from agent.outcome import Outcome, boot_cut, done, failed
from agent.probes import CannotAnswer
from agent.probes.patience import Patience
from agent.request import Request

if TYPE_CHECKING:
    from agent.actions import Bench

MOST_BUNDLES = 8
MOST_BYTES = 64 * 1024 * 1024
"""Of all bundles together, and what must be free before another is written."""
PART_BYTES = 1024 * 1024
PART_SECONDS = 20.0
WRITE_SECONDS = 30.0
_JOURNAL = ("journalctl", "--no-pager", "--output=short-iso-precise", "--boot")
_RUNTIMES = ("containerd.service", "crio.service", "docker.service")


def _service(*units: str) -> tuple[tuple[str, ...], ...]:
    follow = tuple(word for unit in units for word in ("--unit", unit))
    return (
        ("systemctl", "status", "--no-pager", "--full", "--lines=0", *units),
        (*_JOURNAL, "--lines=2000", *follow),
    )


PARTS: Mapping[str, Sequence[Sequence[str]]] = {
    "dmesg": ((*_JOURNAL, "--dmesg", "--lines=2000"),),
    "journal": ((*_JOURNAL, "--lines=4000"),),
    "runtime": _service(*_RUNTIMES),
    "kubelet": _service("kubelet.service"),
    "network": (("ip", "-s", "address"), ("ip", "route"), ("ss", "-s")),
}
"""By the names of the API: commands whose output is one file."""
_SECRET = re.compile(
    r"""
    (?P<keep>
        (?: authorization | proxy-authorization ) \s* [:=] \s* (?: bearer | basic )? \s*
      | \b (?: bearer ) \s+
      | (?: password | passwd | secret | token | api[-_]?key | access[-_]?key ) [\w-]* ["']? \s*
        [:=] \s* ["']?
    )
    (?P<value> [^\s"',;]+ )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LOOSE = re.compile(
    r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # a JSON web token
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # an AWS access key
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"  # user and password in an address
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
    re.DOTALL,
)
HIDDEN = "[hidden]"


def redacted(text: str) -> str:
    return _LOOSE.sub(HIDDEN, _SECRET.sub(rf"\g<keep>{HIDDEN}", text))


@dataclass(frozen=True, slots=True)
class Bundles:
    """The folder of bundles on this host."""

    folder: Path
    patience: Patience = field(default_factory=Patience)

    async def save(self, name: str, files: Mapping[str, str]) -> str:
        """Write a bundle; its path. Raises HostError."""
        try:
            return await self.patience.wait_for(
                lambda: self._save(name, files), WRITE_SECONDS, f"bundle in {self.folder}"
            )
        except CannotAnswer as error:
            raise HostError(str(error)) from error

    def _save(self, name: str, files: Mapping[str, str]) -> str:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        disk = os.statvfs(self.folder)
        if disk.f_bavail * disk.f_frsize < MOST_BYTES:
            raise OSError(28, f"less than {MOST_BYTES} bytes are free")
        path, unfinished = self.folder / f"{name}.tar.gz", self.folder / f".{name}.new"
        with tarfile.open(unfinished, "w:gz") as bundle:
            for file, text in files.items():
                data = text.encode()
                about = tarfile.TarInfo(f"{name}/{file}.txt")
                about.size, about.mode = len(data), 0o600
                bundle.addfile(about, io.BytesIO(data))
        os.chmod(unfinished, 0o600)
        os.replace(unfinished, path)
        self._prune(path)
        return str(path)

    def _prune(self, newest: Path) -> None:
        for left in self.folder.glob(".*.new"):
            left.unlink()
        kept = bytes_kept = 0
        known = sorted(self.folder.glob("*.tar.gz"), key=lambda p: p.stat().st_mtime, reverse=True)
        for path in [newest, *(p for p in known if p != newest)]:
            kept, bytes_kept = kept + 1, bytes_kept + path.stat().st_size
            if path != newest and (kept > MOST_BUNDLES or bytes_kept > MOST_BYTES):
                path.unlink()


class CollectDiagnostics:
    announced = False

    def unfit(self, request: Request) -> str:
        unknown = [part for part in _parts(request) if part not in PARTS]
        return f"bundle: {', '.join(unknown)}: one of {', '.join(PARTS)}" if unknown else ""

    async def look(self, request: Request, bench: "Bench") -> Mapping[str, str]:
        return {"bundle": ",".join(_parts(request)), "name": str(request.key)}

    async def act(
        self, request: Request, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> Outcome:
        if bench.bundles is None:
            return failed("this agent has no folder for diagnostics")
        end = bench.clock.monotonic() + limit
        files = {
            part: await self._part(part, end - bench.clock.monotonic())
            for part in before["bundle"].split(",")
        }
        path = await bench.bundles.save(before["name"], files)
        sizes = ", ".join(f"{part} {len(text)}" for part, text in files.items())
        return done(f"{path} on this host; characters: {sizes}")

    async def _part(self, part: str, left: float) -> str:
        """What cannot be collected is said in its place: the other parts are worth having."""
        said = []
        for argv in PARTS[part]:
            seconds = max(min(left, PART_SECONDS), 0.1)
            try:
                _, text = await run(list(argv), seconds, PART_BYTES)
            except HostError as error:
                text = str(error)
            except TimeoutError:
                text = f"no end within {seconds:.0f} s"
            said.append(redacted(f"$ {' '.join(argv)}\n{text}\n"))
        return "\n".join(said)

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> Outcome | None:
        return None

    def after_boot(self, boot_id: str) -> Outcome:
        return failed(boot_cut(boot_id))


def _parts(request: Request) -> list[str]:
    bundle = (request.step.params or {}).get("bundle", "") if request.step else ""
    return bundle.split(",") if bundle else ["dmesg", "journal", "runtime"]
