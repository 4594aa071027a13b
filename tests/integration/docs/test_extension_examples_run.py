"""The examples of docs/development-examples.md, applied to a copy of the tree and run there."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.extension_examples import (
    FOREIGN,
    ExtensionExample,
    read_examples,
    run_tests,
)
from support.fresh_clone import copy_worktree

pytestmark = [pytest.mark.integration, pytest.mark.timeout(660)]
PASSED = 0
FAILED = {1, 2}
"""pytest's exit codes if tests fail, and if a test file cannot be imported."""


@pytest.mark.parametrize("example", read_examples(), ids=lambda example: example.name)
def test_tests_of_an_example_need_its_patch_and_pass_with_it(
    example: ExtensionExample, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    copy_worktree(tree)
    example.apply(tree, "--include=tests/*")
    code, output = run_tests(tree, "-x", *example.own_tests)
    assert code in FAILED, output
    example.apply(tree, "--exclude=tests/*")
    code, output = run_tests(tree, *example.tests)
    assert code == PASSED, output
    for check in (("format", "--check"), ("check", "--no-cache")):
        sources = [file for file in example.files if file.endswith(".py")]
        command = (sys.executable, "-m", "ruff", *check, *sources)
        run = subprocess.run(command, cwd=tree, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout


def test_run_fails_when_a_module_comes_from_outside_of_the_copy(tmp_path: Path) -> None:
    (tmp_path / "test_outside.py").write_text("import agent\n\n\ndef test_nothing(): ...\n")
    code, output = run_tests(tmp_path, "test_outside.py")
    assert code == FOREIGN, output
    assert "not from the copy" in output
