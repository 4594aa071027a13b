"""Checks that end a fault: each says True only on proof, and None when it cannot tell."""

from pathlib import Path

import pytest

from agent.detectors.logs.pack import our_program
from agent.detectors.logs.recovery_checks import (
    CHECKS,
    filesystem_unmounted,
    filesystem_writable,
    task_goes_on,
)

DISK = "sda1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sys/class/block/sda1").mkdir(parents=True)
    (tmp_path / "sys/class/block/sda1/dev").write_text("8:1\n")
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    return tmp_path


def mount(root: Path, *lines: str) -> None:
    (root / "proc/1/mountinfo").write_text("".join(f"{line}\n" for line in lines))


def test_every_check_that_a_pack_names_exists() -> None:
    named = {one.clear.check for one in our_program().conditions.values()} - {""}
    assert named <= set(CHECKS)


@pytest.mark.parametrize(
    ("options", "writable"),
    [("rw,relatime", True), ("ro,relatime", False), ("rw,emergency_ro", False)],
)
def test_a_filesystem_is_writable_as_its_superblock_says(
    root: Path, options: str, writable: bool
) -> None:
    mount(root, "1 0 8:2 / / ro - ext4 /dev/sda2 ro", f"2 1 8:1 / /d rw - ext4 /dev/x {options}")
    assert filesystem_writable(str(root), DISK) is writable
    assert filesystem_unmounted(str(root), DISK) is False


def test_a_mount_that_somebody_wanted_read_only_is_no_fault(root: Path) -> None:
    mount(root, "2 1 8:1 / /d ro shared:1 - ext4 /dev/sda1 rw")
    assert filesystem_writable(str(root), DISK) is True


def test_a_device_that_is_mounted_no_more_or_gone_has_no_fault(root: Path) -> None:
    mount(root, "1 0 8:2 / / rw - ext4 /dev/sda2 rw")
    assert filesystem_unmounted(str(root), DISK) is True
    assert filesystem_writable(str(root), DISK) is True
    assert filesystem_unmounted(str(root), "sdz") is True


def test_what_cannot_be_looked_at_is_unknown(root: Path, tmp_path: Path) -> None:
    assert filesystem_writable(str(root), DISK) is None
    for key in ("", "../../etc", ".", "a/b"):
        assert filesystem_writable(str(root), key) is None
    assert filesystem_unmounted(str(tmp_path / "nowhere"), DISK) is None
    assert task_goes_on(str(tmp_path / "nowhere"), "1") is None
    assert task_goes_on(str(root), "") is None
    assert task_goes_on(str(root), "x1") is None


@pytest.mark.parametrize(
    ("stat", "goes_on"),
    [
        ("7 (docker) D 1", False),
        ("7 (docker) S 1", True),
        ("7 (a) D b) R 1", True),
        ("7 (a) S) D 1", False),
        ("", None),
    ],
)
def test_a_task_goes_on_unless_it_is_in_uninterruptible_sleep(
    root: Path, stat: str, goes_on: bool | None
) -> None:
    (root / "proc/7").mkdir()
    (root / "proc/7/stat").write_text(stat)
    assert task_goes_on(str(root), "7") is goes_on
    assert task_goes_on(str(root), "8") is True
