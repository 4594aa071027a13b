"""What `make demo` installs: the requirements of running at the versions of the lock, no tools."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TOOLS = ("pytest", "mypy", "ruff", "playwright", "boto3", "mkdocs")


def pins(names: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ("awk", "-f", "images/pins.awk", names, "requirements.lock"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def planned(target: str) -> str:
    """The commands of a target from nothing, without running them."""
    return subprocess.run(
        ("make", "--dry-run", "--always-make", target),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout


def test_the_pins_of_running_have_hashes_and_no_tools() -> None:
    found = pins(ROOT / "images/run.txt")
    assert found.returncode == 0, found.stderr
    heads = [line for line in found.stdout.splitlines() if line[0].isalnum()]
    names = {line.split("==")[0] for line in heads}
    assert names == set((ROOT / "images/run.txt").read_text().split())
    assert not names & set(TOOLS)
    assert found.stdout.count("--hash=sha256:") >= len(heads)


def test_a_name_that_the_lock_lacks_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("aiohttp\nno-such-package\n")
    found = pins(tmp_path / "names.txt")
    assert found.returncode == 1 and "requirements.lock lacks no-such-package" in found.stderr


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
@pytest.mark.parametrize(("target", "whole"), [("demo", False), ("test", True), ("venv", True)])
def test_only_developers_install_the_whole_lock_and_all_see_what_is_done(
    target: str, whole: bool
) -> None:
    commands = planned(target)
    assert "run.lock" in commands and "2/3 install" in commands and "--quiet" not in commands
    assert ("-r requirements.lock" in commands) == whole
