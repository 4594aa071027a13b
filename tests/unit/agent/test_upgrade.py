"""Which version runs, and what the package needs to know of it."""

from pathlib import Path

from support.clock import T0

from agent.machine import host
from agent.upgrade import Upgrade
from agent.version import version


def test_the_version_is_that_of_the_package_or_of_the_project(tmp_path: Path) -> None:
    package = tmp_path / "agent"
    package.mkdir()
    assert version(package)  # the project's
    (tmp_path / "VERSION").write_text("0.3.1\n")
    assert version(package) == "0.3.1"


def test_a_version_that_renewed_its_lease_says_so(tmp_path: Path) -> None:
    Upgrade(tmp_path, "0.3.1").proven()
    assert (tmp_path / "renewed").read_text() == "0.3.1\n"
    Upgrade(tmp_path / "nowhere", "0.3.1").proven()  # a disk that does not work is no reason to end


def test_a_version_that_was_taken_back_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "rejected").write_text("version 0.4 did not renew its lease within 120 s\n")
    upgrade = Upgrade(tmp_path, "0.3.1")
    report = upgrade.rejected(T0, "kubenode-agent")
    assert report is not None and report.reason == "AgentRolledBack"
    assert report.message == "version 0.4 did not renew its lease within 120 s"
    assert upgrade.rejected(T0, "kubenode-agent") is None


def test_the_host_is_told_as_the_api_takes_it(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "os-release").write_text('ID=debian\nVERSION_ID="12"\nJUNK\n')
    told = host("boot-1", "0.3.1", str(tmp_path))
    assert (told["bootID"], told["os"], told["agent"]) == ("boot-1", "debian-12", "0.3.1")
    assert set(told) == {"bootID", "os", "kernel", "arch", "agent"}
    assert "os" not in host("b", "v", str(tmp_path / "nowhere"))
