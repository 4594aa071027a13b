"""Which suites of tests/e2e a change selects."""

import subprocess
from pathlib import Path

import pytest
from e2e_selection import APART, ROTATION, SUITES, changed_since, in_turn, selected
from run import ALONE, PARTS
from support.documented import ROOT

DAY = 739_000


def on_disk() -> set[str]:
    folder = ROOT / "tests/e2e"
    files = {str(f.relative_to(ROOT)) for f in folder.glob("test_*.py")}
    return files | {str(f.parent.relative_to(ROOT)) for f in folder.glob("*/test_*.py")}


def tracked() -> list[str]:
    command = ("git", "-C", str(ROOT), "ls-files")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def by_change(path: str) -> frozenset[str]:
    """The suites that a change of `path` selects on every day."""
    days = [selected([path], day) for day in range(DAY, DAY + ROTATION)]
    return frozenset.intersection(*days)


def test_the_table_has_every_suite_and_no_other() -> None:
    assert set(SUITES) == on_disk()


def test_every_path_of_the_table_exists() -> None:
    named = {path for paths in SUITES.values() for path in paths} | set(APART)
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.exhaustive
def test_every_file_of_the_product_selects_a_suite() -> None:
    product = [p for p in tracked() if not any(f"{p}/".startswith(f"{part}/") for part in APART)]
    assert len(product) > 1000
    assert [path for path in product if not by_change(path)] == []


@pytest.mark.parametrize("part", APART)
def test_what_no_suite_reads_selects_none(part: str) -> None:
    assert by_change(part if (ROOT / part).is_file() else f"{part}/a_file.py") == frozenset()


@pytest.mark.parametrize(
    "path",
    [
        "requirements.lock",
        ".ci/run",
        "kubenode/runtime/kube/client.py",
        "kubenode/api/names.py",
        "tests/support/control_plane.py",
        "a_new_folder/a_new_file.py",
    ],
)
def test_what_no_suite_names_selects_every_suite(path: str) -> None:
    assert by_change(path) == set(SUITES)


@pytest.mark.parametrize("suite", sorted(SUITES))
def test_a_suite_selects_itself(suite: str) -> None:
    path = suite if suite.endswith(".py") else f"{suite}/test_some.py"
    assert by_change(path) == {suite}


def test_a_prefix_of_a_name_is_not_a_folder() -> None:
    assert by_change("agents/x.py") == set(SUITES)


def test_every_suite_has_its_turn() -> None:
    turns = [in_turn(DAY + n) for n in range(ROTATION)]
    assert frozenset().union(*turns) == set(SUITES)
    assert sum(map(len, turns)) == len(SUITES)
    assert selected([], DAY) == in_turn(DAY)


def test_each_selected_suite_runs_in_one_part() -> None:
    chosen = frozenset({*ALONE, "tests/e2e/test_told_heal.py"})
    of = {part.name: part.of(chosen).tests for part in PARTS}
    assert of["hosts"] == ("tests/e2e/test_told_heal.py",)
    assert set(of["alone"]) == set(ALONE)
    assert of["unit"] == ("tests/unit",)
    assert next(p for p in PARTS if p.name == "hosts").of(frozenset(ALONE)).tests == ()


@pytest.fixture
def history(tmp_path: Path) -> Path:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True)

    git("init", "-b", "main")
    for name in ("same", "edited", "moved"):
        (tmp_path / name).write_text(name)
    git("add", ".")
    git("commit", "-m", "first")
    git("tag", "first")
    git("mv", "moved", "here")
    git("commit", "-m", "second")
    (tmp_path / "edited").write_text("other")
    (tmp_path / "new").touch()
    return tmp_path


def test_committed_edited_moved_and_new_paths_are_changes(history: Path) -> None:
    assert changed_since("first", history) == ["edited", "here", "moved", "new"]


def test_a_commit_outside_the_history_gives_no_answer(history: Path) -> None:
    assert changed_since("0123456789abcdef", history) is None
