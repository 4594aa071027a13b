"""Reads metadata of the agent's Debian package without dpkg, which other systems lack."""

import io
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kubenode.cli.exits import Exit, Refusal
from machine.hostimport.join_settings import PACKAGE

MAGIC = b"!<arch>\n"
HEADER_BYTES = 60
_PYTHON = re.compile(r"python3 \((>=|<<) (\d+)\.(\d+)~?\)")
Minor = tuple[int, int]


@dataclass(frozen=True, slots=True)
class AgentPackage:
    """Metadata of the agent's package.

    pythons: the first minor version of python3 that it supports, and the first that it does not;
        None if the package does not say.
    """

    path: Path
    version: str
    architecture: str
    pythons: tuple[Minor, Minor] | None

    @property
    def content(self) -> bytes:
        return self.path.read_bytes()


def read_package(path: Path) -> AgentPackage:
    """Read a package. Raises Refusal if the file is no package of the agent."""
    try:
        fields = _control(path.read_bytes())
    except OSError as error:
        raise Refusal(f"--agent-package {path}: {error.strerror}; check the name") from error
    except (ValueError, EOFError, tarfile.TarError) as error:
        raise Refusal(f"--agent-package {path}: no Debian package: {error}", Exit.USAGE) from error
    if fields.get("Package") != PACKAGE:
        raise Refusal(
            f"--agent-package {path}: it is {fields.get('Package', 'nameless')}, not {PACKAGE};"
            " `make deb` builds it",
            Exit.USAGE,
        )
    return AgentPackage(
        path,
        fields.get("Version", ""),
        fields.get("Architecture", ""),
        _pythons(fields.get("Depends", "")),
    )


def _control(data: bytes) -> Mapping[str, str]:
    """Return the fields of the control file, continuation lines joined. Raises ValueError."""
    for name, content in _members(data).items():
        if name.startswith("control.tar"):
            with tarfile.open(fileobj=io.BytesIO(content)) as tar:
                file = tar.extractfile("./control")
                text = "" if file is None else file.read().decode()
            lines = re.sub(r"\n[ \t]", " ", text).splitlines()
            pairs = (line.partition(":") for line in lines)
            return {key: value.strip() for key, _, value in pairs}
    raise ValueError("it has no control.tar")


def _members(data: bytes) -> Mapping[str, bytes]:
    """Return the members of an ar archive by name.

    Source of the format: ar(5). Raises ValueError.
    """
    if not data.startswith(MAGIC):
        raise ValueError("it is no ar archive")
    members, at = {}, len(MAGIC)
    while at + HEADER_BYTES <= len(data):
        header = data[at : at + HEADER_BYTES]
        name, size = header[:16].decode().strip().rstrip("/"), int(header[48:58])
        at += HEADER_BYTES
        members[name] = data[at : at + size]
        at += size + size % 2
    return members


def _pythons(depends: str) -> tuple[Minor, Minor] | None:
    bounds = {sign: (int(a), int(b)) for sign, a, b in _PYTHON.findall(depends)}
    return (bounds[">="], bounds["<<"]) if len(bounds) == 2 else None
