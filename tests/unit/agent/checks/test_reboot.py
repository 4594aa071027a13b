"""A restart that installed packages wait for."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.clock import FakeClock
from support.watched import Tree

from agent.detectors.assembly import detectors
from agent.detectors.checks import Finding
from agent.detectors.checks.host.reboot import CONDITION, PROGRAM, RebootCheck
from agent.detectors.checks.programs import Ran
from agent.detectors.settings import Detectors, RebootSettings
from agent.host.systemd import SystemdHost
from agent.probes import CannotAnswer
from rules.lint.conditions import KNOWN

FILE = "/run/reboot-required"
REQUIRED = """Core libraries or services have been updated since boot-up:
  * kernel
  * glibc

Reboot is required to fully utilize these updates.
More information: https://access.redhat.com/solutions/27943
"""
"""Output of dnf-plugins-core 4.3, plugins/needs_restarting.py."""


class OneAnswer:
    """A runner with one answer. `commands` has what was run."""

    def __init__(self, answer: Ran) -> None:
        self._answer = answer
        self.commands: list[str] = []

    async def run(self, argv: Sequence[str], seconds: float, output_bytes: int = 0) -> Ran:
        self.commands.append(" ".join(argv))
        return self._answer


def inspect(root: Path, answer: Ran | None = None) -> Finding:
    if answer is not None:
        Tree(root).write(PROGRAM.lstrip("/"), "")
    check = RebootCheck(FILE, OneAnswer(answer or Ran(None, why="not asked")), str(root))
    return asyncio.run(check.inspect())[CONDITION]


def test_missing_file_is_no_fault(tmp_path: Path) -> None:
    assert inspect(tmp_path) == Finding(False, "NoRebootRequired", f"{FILE} does not exist")


def test_fault_names_each_package_once(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("run/reboot-required", "*** System restart required ***\n")
    assert inspect(tmp_path).message == f"{FILE} exists: no list of packages"
    tree.write("run/reboot-required.pkgs", "linux-base\nlibc6\nlinux-base\n")
    message = f"{FILE} exists: packages libc6, linux-base"
    assert inspect(tmp_path) == Finding(True, "PackagesNeedReboot", message)


def test_message_names_at_most_five_packages(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("run/reboot-required", "")
    tree.write("run/reboot-required.pkgs", "a b c d e f")
    assert inspect(tmp_path).message.endswith("packages a, b, c, d, e, …")


def test_dnf_is_asked_where_it_has_the_program(tmp_path: Path) -> None:
    none = Finding(False, "NoRebootRequired", f"{PROGRAM} -r reports none")
    assert inspect(tmp_path, Ran(0, "No core libraries or services have been updated.\n")) == none
    message = f"{PROGRAM} -r reports packages glibc, kernel"
    assert inspect(tmp_path, Ran(1, REQUIRED)) == Finding(True, "PackagesNeedReboot", message)


@pytest.mark.parametrize(
    "answer", [Ran(1, "Error: rpmdb open failed"), Ran(2), Ran(None, why="no result within 60 s")]
)
def test_failure_of_dnf_is_an_error_not_a_verdict(tmp_path: Path, answer: Ran) -> None:
    with pytest.raises(CannotAnswer, match=r"needs-restarting -r: (exit status|no result)"):
        inspect(tmp_path, answer)


def test_file_is_enough_without_dnf(tmp_path: Path) -> None:
    Tree(tmp_path).write("run/reboot-required", "")
    assert inspect(tmp_path, Ran(None, why="hangs")).faulty


def test_unreadable_state_is_an_error_not_a_verdict(tmp_path: Path) -> None:
    Tree(tmp_path).write("run", "a file where a folder belongs")
    with pytest.raises(CannotAnswer, match="Not a directory"):
        inspect(tmp_path)


@pytest.mark.parametrize("enabled", [True, False])
def test_setting_switches_the_detector(tmp_path: Path, enabled: bool) -> None:
    settings = Detectors(reboot=RebootSettings(enabled=enabled))
    host = SystemdHost("unix:path=/nowhere")
    running = detectors(settings, host, FakeClock(), str(tmp_path))
    assert any(CONDITION in detector.conditions for detector in running) is enabled


def test_lint_knows_the_condition() -> None:
    assert CONDITION in KNOWN
