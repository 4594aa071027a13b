"""What counts as failed: the second run is for tests that wait, and only for a few of them."""

from pathlib import Path

import pytest
from run import MOST_AGAIN, PARTS, Part, run
from support.documented import ROOT

UNSTEADY = """
from pathlib import Path
def test_steady(): pass
def test_unsteady():
    seen = Path(__file__).with_suffix(".seen")
    known = seen.exists()
    seen.touch()
    assert known
"""
BROKEN = "def test_broken(): assert False\n"
ON_OLDEST = """
import os
def test_version(): assert os.environ["KUBENODE_KUBERNETES"] == "oldest"
"""
OPTIONS = ["-q", "--rootdir", "."]


def part(folder: Path, text: str, *, waits: bool, files: int = 1) -> Part:
    for number in range(files):
        (folder / f"test_looked_at_{number}.py").write_text(text)
    return Part("some", (str(folder),), waits=waits)


@pytest.mark.parametrize(
    ("text", "waits", "passed", "failed", "unsteady"),
    [
        (UNSTEADY, True, True, 0, 1),
        (UNSTEADY, False, False, 1, 0),
        (BROKEN, True, False, 1, 0),
        (BROKEN + UNSTEADY, True, False, 1, 1),
        ("def test_well(): pass\n", True, True, 0, 0),
        ("no python", True, False, 1, 0),
        ("", True, True, 0, 0),
    ],
)
def test_a_second_run_is_for_few_tests_that_wait_and_never_hides_one_that_fails_again(
    tmp_path: Path, text: str, waits: bool, passed: bool, failed: int, unsteady: int
) -> None:
    outcome = run(part(tmp_path, text, waits=waits), OPTIONS)
    counts = (outcome.passed, len(outcome.failed), len(outcome.unsteady))
    assert counts == (passed, failed, unsteady)


@pytest.mark.parametrize("files", [MOST_AGAIN, MOST_AGAIN + 1])
def test_what_fails_in_many_files_does_not_run_again(tmp_path: Path, files: int) -> None:
    outcome = run(part(tmp_path, UNSTEADY, waits=True, files=files), OPTIONS)
    assert outcome.passed == (files <= MOST_AGAIN)


@pytest.mark.parametrize("version", ["oldest", "newest"])
def test_part_runs_on_its_version_of_kubernetes(tmp_path: Path, version: str) -> None:
    (tmp_path / "test_version.py").write_text(ON_OLDEST)
    outcome = run(Part("some", (str(tmp_path),), waits=False, kubernetes=version), OPTIONS)
    assert outcome.passed == (version == "oldest")


def test_part_of_the_oldest_version_names_files_that_exist() -> None:
    (part,) = (part for part in PARTS if part.kubernetes == "oldest")
    assert all((ROOT / name).is_file() for name in part.tests if name.startswith("tests/"))
