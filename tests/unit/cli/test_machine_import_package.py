"""The agent's package is read without dpkg."""

import io
import tarfile
from pathlib import Path

import pytest

from kubenode.cli.exits import Refusal
from kubenode.cli.machine_import_package import read_package

CONTROL = """Package: kubenode-agent
Version: 0.3.1
Architecture: arm64
Depends: python3 (>= 3.11~), python3 (<< 3.12~), systemd, dbus,
 e2fsprogs
Description: KubeNode agent
 goes on
"""


def member(name: str, content: bytes) -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
    return head + content + b"\n" * (len(content) % 2)


def a_package(folder: Path, control: str = CONTROL) -> Path:
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w:xz") as archive:
        info = tarfile.TarInfo("./control")
        info.size = len(control.encode())
        archive.addfile(info, io.BytesIO(control.encode()))
    path = folder / "agent.deb"
    parts = [member("debian-binary", b"2.0\n"), member("control.tar.xz", tar.getvalue())]
    path.write_bytes(b"!<arch>\n" + b"".join([*parts, member("data.tar.xz", b"x")]))
    return path


def test_version_architecture_and_pythons_are_read(tmp_path: Path) -> None:
    found = read_package(a_package(tmp_path))
    assert (found.version, found.architecture) == ("0.3.1", "arm64")
    assert found.pythons == ((3, 11), (3, 12))


def test_a_package_that_says_no_python_is_not_held_to_one(tmp_path: Path) -> None:
    found = read_package(a_package(tmp_path, "Package: kubenode-agent\nVersion: 1\n"))
    assert found.pythons is None


def test_what_is_no_package_of_the_agent_is_refused(tmp_path: Path) -> None:
    other = a_package(tmp_path, "Package: nginx\n")
    with pytest.raises(Refusal, match="it is nginx, not kubenode-agent"):
        read_package(other)
    with pytest.raises(Refusal, match="check the name"):
        read_package(tmp_path / "none.deb")
    for content in (b"", b"PK\x03\x04", b"!<arch>\n", a_package(tmp_path).read_bytes()[:100]):
        broken = tmp_path / "broken.deb"
        broken.write_bytes(content)
        with pytest.raises(Refusal, match="no Debian package"):
            read_package(broken)
