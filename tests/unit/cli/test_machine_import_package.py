"""The agent's packages are read without dpkg and rpm."""

import io
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from kubenode.cli.exits import Refusal
from kubenode.cli.machine_import_package import package_for, read_package, read_packages

CONTROL = """Package: kubenode-agent
Version: 0.3.1
Architecture: arm64
Depends: systemd (>= 249), dbus,
 e2fsprogs
Description: KubeNode agent
 goes on
"""
TAGS = {1000: "kubenode-agent", 1001: "0.3.1", 1022: "x86_64"}


def member(name: str, content: bytes) -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
    return head + content + b"\n" * (len(content) % 2)


def a_tar(name: str, control: str) -> bytes:
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(control.encode())
        archive.addfile(info, io.BytesIO(control.encode()))
    return tar.getvalue()


def a_deb(control: str = CONTROL) -> bytes:
    parts = [
        member("debian-binary", b"2.0\n"),
        member("control.tar.gz", a_tar("./control", control)),
        member("data.tar.xz", b"x"),
    ]
    return b"!<arch>\n" + b"".join(parts)


def rpm_header(tags: Mapping[int, str]) -> bytes:
    entries, store = b"", b""
    for tag, text in tags.items():
        entries += struct.pack(">4i", tag, 6, len(store), 1)
        store += text.encode() + b"\0"
    return b"\x8e\xad\xe8\x01" + struct.pack(">3i", 0, len(tags), len(store)) + entries + store


def an_rpm(tags: Mapping[int, str] = TAGS) -> bytes:
    signature = rpm_header({1000: "the signature's own tag"})
    padding = b"\0" * (-len(signature) % 8)
    return b"\xed\xab\xee\xdb" + b"\0" * 92 + signature + padding + rpm_header(tags) + b"payload"


PACKAGES = {
    "kubenode-agent_0.3.1_arm64.deb": a_deb(),
    "kubenode-agent-0.3.1-1.x86_64.rpm": an_rpm(),
    "kubenode-agent-0.3.1-linux-arm64.tar.gz": a_tar("kubenode-agent/control", CONTROL),
}
READ = {("deb", "arm64"), ("rpm", "amd64"), ("tar", "arm64")}


def write_packages(folder: Path) -> Path:
    for name, content in PACKAGES.items():
        (folder / name).write_bytes(content)
    return folder


def test_every_format_is_read_from_files_and_folders(tmp_path: Path) -> None:
    folder = write_packages(tmp_path)
    (folder / "kubenode-0.3.1.whl").write_text("another file of dist/")
    for paths in ([folder], [folder / name for name in PACKAGES]):
        packages = read_packages(paths)
        assert {(package.format, package.architecture) for package in packages} == READ
        assert {package.version for package in packages} == {"0.3.1"}


def test_each_host_gets_the_package_of_its_format_and_architecture(tmp_path: Path) -> None:
    packages = read_packages([write_packages(tmp_path)])
    chosen = package_for(packages, "rpm", "amd64")
    assert chosen is not None and chosen.path.suffix == ".rpm"
    assert package_for(packages, "rpm", "arm64") is None
    assert package_for((), "deb", "amd64") is None


def test_two_packages_for_the_same_hosts_are_refused(tmp_path: Path) -> None:
    (write_packages(tmp_path) / "kubenode-agent_0.3.2_arm64.deb").write_bytes(a_deb())
    with pytest.raises(Refusal, match="2 packages of format deb for arm64; keep one"):
        read_packages([tmp_path])


def test_folder_without_packages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no packages kubenode-agent there; `make packages`"):
        read_packages([tmp_path])


def test_package_that_differs_from_the_checksums_beside_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agent.deb"
    path.write_bytes(a_deb())
    sums = tmp_path / "SHA256SUMS"
    sums.write_text(f"{read_package(path).sha256}  agent.deb\n{'0' * 64}  other.deb\n")
    assert read_package(path).format == "deb"
    sums.write_text(f"{'0' * 64}  agent.deb\n")
    with pytest.raises(Refusal, match=r"SHA256SUMS beside it says 0+: copy or build"):
        read_package(path)


def test_what_is_no_package_of_the_agent_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    for content in (a_deb("Package: nginx\n"), an_rpm({1000: "nginx"})):
        path.write_bytes(content)
        with pytest.raises(Refusal, match="it is nginx, not kubenode-agent"):
            read_package(path)
    with pytest.raises(Refusal, match="check the name"):
        read_package(tmp_path / "none.deb")
    others = (b"", b"PK\x03\x04", b"!<arch>\n", a_deb()[:100], an_rpm()[:120], a_tar("x", CONTROL))
    for content in others:
        path.write_bytes(content)
        with pytest.raises(Refusal, match=r"no \.deb, \.rpm or \.tar\.gz of the agent"):
            read_package(path)
