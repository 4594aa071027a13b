"""The agent's archive on a host without package manager: its script installs it, or undoes all."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agent_package import agent_package
from support.hosts import Host, Hosts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

UNPACKED = "/var/cache/kubenode-agent"
SETUP = f"{UNPACKED}/setup.sh"
VERSION = "0.1.0"
FOLDERS = ("/etc", "/opt", "/usr/bin", "/usr/lib/systemd", "/var/lib")


@pytest.fixture
def host(hosts: Hosts, tmp_path: Path) -> Iterator[Host]:
    """A host on which the archive is unpacked."""
    archive = agent_package(tmp_path, "tar", VERSION)
    booted = hosts.boot("archive")
    folder = str(booted.root / "var/cache")
    subprocess.run(["tar", "-xzf", archive, "-C", folder, "--no-same-owner"], check=True)
    yield booted
    booted.destroy()


def files(host: Host) -> set[str]:
    listed = ("-printf", "%p %y %m %l\\n")
    pruned = ("-path", "/var/lib/systemd", "-prune", "-o")
    return set(host.run("find", *FOLDERS, *pruned, *listed).stdout.splitlines())


def version(host: Host) -> str:
    asked = ("/opt/kubenode/bin/python3", "-c", "import platform as p; print(p.libc_ver()[1])")
    assert host.run(*asked).stdout.startswith("2."), "its own Python runs"
    return host.run("readlink", "/opt/kubenode").stdout.strip()


def test_archive_is_installed_or_undone_and_leaves_nothing(host: Host) -> None:
    before = files(host)
    loader = f"{UNPACKED}/{VERSION}/python/bin/python3.13"
    host.run("mv", loader, f"{loader}.good")
    failed = host.run("sh", SETUP, check=False)
    assert failed.returncode == 1
    assert "does not run on this host" in failed.stderr and "is undone" in failed.stderr
    assert files(host) == before

    host.run("mv", f"{loader}.good", loader)
    host.run("sh", SETUP)
    assert version(host) == f"/opt/kubenode-agent/{VERSION}"
    host.run("mv", loader, f"{loader}.good")
    assert host.run("sh", SETUP, check=False).returncode == 1
    assert version(host) == f"/opt/kubenode-agent/kept/{VERSION}", "the version before stays"

    host.run("/opt/kubenode/bin/setup", "purge")
    assert files(host) == before
