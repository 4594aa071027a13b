"""Reads metadata of the agent's packages without the package managers, which other systems lack."""

import hashlib
import io
import struct
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubenode.cli.exits import Exit, Refusal
from machine.hostimport.join_settings import PACKAGE
from machine.hostimport.preflight import SUFFIXES
from machine.hostimport.probe import ARCHITECTURES

AR_MAGIC = b"!<arch>\n"
AR_HEADER_BYTES = 60
RPM_LEAD_BYTES = 96
RPM_MAGIC, RPM_HEADER_MAGIC = b"\xed\xab\xee\xdb", b"\x8e\xad\xe8\x01"
RPM_TAGS = {1000: "Package", 1001: "Version", 1022: "Architecture"}
"""Tags of the strings to read. Source: rpm, include/rpm/rpmtag.h."""
SUMS = "SHA256SUMS"
"""File of checksums that `make packages` writes beside the packages."""


@dataclass(frozen=True, slots=True)
class AgentPackage:
    """Metadata of a package of the agent.

    format: deb, rpm or tar.
    architecture: as dpkg names it.
    sha256: hexadecimal digits.
    """

    path: Path
    format: str
    version: str
    architecture: str
    sha256: str

    @property
    def content(self) -> bytes:
        return self.path.read_bytes()


def read_packages(paths: Iterable[Path]) -> tuple[AgentPackage, ...]:
    """Read packages, and those of folders. Raises Refusal if a file is no package of the agent."""
    packages: list[AgentPackage] = []
    for path in paths:
        files = _packages_in(path) if path.is_dir() else [path]
        packages += [read_package(file) for file in files]
    keys = [(package.format, package.architecture) for package in packages]
    for package, key in zip(packages, keys, strict=True):
        if keys.count(key) > 1:
            raise Refusal(
                f"--agent-package {package.path}: there are {keys.count(key)} packages of format"
                f" {package.format} for {package.architecture}; keep one",
                Exit.USAGE,
            )
    return tuple(packages)


def package_for(
    packages: Sequence[AgentPackage], format_: str, architecture: str
) -> AgentPackage | None:
    """Return the package for a host, None if there is none."""
    fits = (p for p in packages if (p.format, p.architecture) == (format_, architecture))
    return next(fits, None)


def _packages_in(folder: Path) -> list[Path]:
    suffixes = tuple(SUFFIXES.values())
    files = [path for path in sorted(folder.glob(f"{PACKAGE}*")) if path.name.endswith(suffixes)]
    if not files:
        how = "`make packages` builds them into dist/"
        raise Refusal(f"--agent-package {folder}: no packages {PACKAGE} there; {how}", Exit.USAGE)
    return files


def read_package(path: Path) -> AgentPackage:
    """Read a package. Raises Refusal if the file is no package of the agent."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Refusal(f"--agent-package {path}: {error.strerror}; check the name") from error
    try:
        format_, fields = _fields(data)
    except (ValueError, EOFError, KeyError, struct.error, tarfile.TarError) as error:
        text = f"--agent-package {path}: no .deb, .rpm or .tar.gz of the agent: {error}"
        raise Refusal(f"{text}; `make packages` builds them", Exit.USAGE) from error
    if fields.get("Package") != PACKAGE:
        raise Refusal(
            f"--agent-package {path}: it is {fields.get('Package', 'nameless')}, not {PACKAGE};"
            " `make packages` builds it",
            Exit.USAGE,
        )
    sha256 = hashlib.sha256(data).hexdigest()
    _check_sum(path, sha256)
    architecture = fields.get("Architecture", "")
    return AgentPackage(
        path,
        format_,
        fields.get("Version", ""),
        ARCHITECTURES.get(architecture, architecture),
        sha256,
    )


def _check_sum(path: Path, sha256: str) -> None:
    """Raise Refusal if the list of checksums beside the file has another one for it."""
    sums = path.with_name(SUMS)
    if not sums.is_file():
        return
    for line in sums.read_text().splitlines():
        listed, _, name = line.partition("  ")
        if name == path.name and listed != sha256:
            raise Refusal(
                f"--agent-package {path}: its SHA-256 is {sha256}, and {SUMS} beside it says"
                f" {listed}: copy or build the package again"
            )


def _fields(data: bytes) -> tuple[str, Mapping[str, str]]:
    """Return format and fields. Raises ValueError, EOFError, KeyError, struct.error, TarError."""
    if data.startswith(AR_MAGIC):
        return "deb", _deb_fields(data)
    if data.startswith(RPM_MAGIC):
        return "rpm", _rpm_fields(data)
    return "tar", _control(data, f"{PACKAGE}/control")


def _deb_fields(data: bytes) -> Mapping[str, str]:
    for name, content in _members(data).items():
        if name.startswith("control.tar"):
            return _control(content, "./control")
    raise ValueError("it has no control.tar")


def _control(data: bytes, name: str) -> Mapping[str, str]:
    """Return the fields of a control file in a tar archive."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        file = tar.extractfile(name)
        text = "" if file is None else file.read().decode()
    pairs = (line.partition(":") for line in text.splitlines())
    return {key: value.strip() for key, _, value in pairs}


def _members(data: bytes) -> Mapping[str, bytes]:
    """Return the members of an ar archive by name. Source of the format: ar(5)."""
    members, at = {}, len(AR_MAGIC)
    while at + AR_HEADER_BYTES <= len(data):
        header = data[at : at + AR_HEADER_BYTES]
        name, size = header[:16].decode().strip().rstrip("/"), int(header[48:58])
        at += AR_HEADER_BYTES
        members[name] = data[at : at + size]
        at += size + size % 2
    return members


def _rpm_fields(data: bytes) -> Mapping[str, str]:
    """Return strings of the header after the signature. Source: rpm, docs/manual/format."""
    _, _, end = _rpm_header(data, RPM_LEAD_BYTES)
    entries, store, _ = _rpm_header(data, end + -end % 8)
    fields = {}
    for tag, _, offset, _ in struct.iter_unpack(">4i", data[entries:store]):
        if tag in RPM_TAGS:
            start = store + offset
            fields[RPM_TAGS[tag]] = data[start : data.index(b"\0", start)].decode()
    return fields


def _rpm_header(data: bytes, at: int) -> tuple[int, int, int]:
    """Return where the entries of a header, its store and what follows it begin."""
    magic, _, count, size = struct.unpack_from(">4s4sii", data, at)
    if magic != RPM_HEADER_MAGIC:
        raise ValueError("its header is not that of an rpm")
    entries = at + 16
    store = entries + 16 * count
    return entries, store, store + size
