"""The host's files below a mounted root: links stay in it."""

import errno
import os
from pathlib import Path

import pytest

from agent.host.files import MOST_LINKS, SYSTEM_BUS, HostRoot


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for folder in ("etc", "run", "usr/lib", "var/lib", "data/containerd"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "usr/lib/os-release").write_text("ID=host\n")
    (tmp_path / "etc/os-release").symlink_to("../usr/lib/os-release")
    (tmp_path / "var/run").symlink_to("/run")
    (tmp_path / "var/lib/containerd").symlink_to("/data/containerd")
    (tmp_path / "run/socket").write_text("here")
    return tmp_path


def test_the_service_uses_paths_as_they_are(tmp_path: Path) -> None:
    files = HostRoot()
    assert files.path("/etc/fstab") == files.path("etc/fstab") == Path("/etc/fstab")
    assert files.bus_address() is None and not files.mounted
    (tmp_path / "link").symlink_to(tmp_path / "target")
    assert files.path(str(tmp_path / "link")) == tmp_path / "link"


def test_links_of_the_host_resolve_within_its_root(host: Path) -> None:
    files = HostRoot(str(host))
    assert files.read_text("/etc/os-release") == "ID=host\n"
    assert files.read_text("/var/run/socket") == "here"
    assert files.path("/var/lib/containerd/images") == host / "data/containerd/images"
    assert files.is_dir("/var/lib/containerd") and files.exists("var/run/socket")
    assert files.list_names("/var/run") == ["socket"]
    assert files.statvfs("/var/lib/containerd").f_blocks
    assert files.stat("/var/run").st_ino == (host / "run").stat().st_ino


@pytest.mark.parametrize("target", ["../../../../etc/passwd", "/../etc/passwd"])
def test_no_link_leads_out_of_the_root(host: Path, target: str) -> None:
    (host / "etc/escape").symlink_to(target)
    assert HostRoot(str(host)).path("/etc/escape") == host / "etc/passwd"
    assert not HostRoot(str(host)).exists("/etc/escape")


def test_links_in_a_circle_are_an_error_of_the_file(host: Path) -> None:
    (host / "etc/a").symlink_to("b")
    (host / "etc/b").symlink_to("a")
    with pytest.raises(OSError, match=str(MOST_LINKS)) as raised:
        HostRoot(str(host)).exists("/etc/a")
    assert raised.value.errno == errno.ELOOP


def test_patterns_match_the_hosts_paths(host: Path) -> None:
    (host / "etc/npd").mkdir()
    for name in ("b.json", "a.json", "c.txt"):
        (host / "etc/npd" / name).touch()
    (host / "var/npd").symlink_to("/etc/npd")
    files = HostRoot(str(host))
    assert files.glob("/etc/npd/*.json") == ["/etc/npd/a.json", "/etc/npd/b.json"]
    assert files.glob("/var/npd/*.json") == ["/var/npd/a.json", "/var/npd/b.json"]
    assert files.glob("/etc/*/c.txt") == ["/etc/npd/c.txt"]
    assert files.glob("/etc/npd/a.json") == ["/etc/npd/a.json"]
    assert files.glob("/none/*") == files.glob("/etc/none.json") == []


def test_the_kernels_own_files_are_not_resolved(host: Path) -> None:
    (host / "proc/1").mkdir(parents=True)
    (host / "proc/1/root").symlink_to("/")
    assert HostRoot(str(host)).path("/proc/1/root") == host / "proc/1/root"


def test_the_bus_is_the_one_below_the_root(host: Path) -> None:
    assert HostRoot(str(host)).bus_address() == f"unix:path={host}{SYSTEM_BUS}"


def test_a_handle_is_not_inherited(host: Path) -> None:
    handle = HostRoot(str(host)).open_handle("/var/run/socket", os.O_RDONLY)
    try:
        assert os.read(handle, 4) == b"here" and not os.get_inheritable(handle)
    finally:
        os.close(handle)
