"""docs/development-examples.md walks through patches that fit the tree."""

from pathlib import Path

import pytest
from support.extension_examples import PAGE, PATCHES, ExtensionExample, PatchError, read_examples

EXAMPLES = read_examples()


def named(example: ExtensionExample) -> str:
    return example.name


def test_page_walks_through_every_patch() -> None:
    stored = sorted(path.stem for path in (PAGE.parent / PATCHES).glob("*"))
    assert stored
    assert sorted(example.name for example in EXAMPLES) == stored


@pytest.mark.parametrize("example", EXAMPLES, ids=named)
def test_walk_names_each_file_of_the_patch_once_and_states_their_number(
    example: ExtensionExample,
) -> None:
    assert sorted(example.rows) == sorted(example.files)
    assert example.count == len(example.files)


@pytest.mark.parametrize("example", EXAMPLES, ids=named)
def test_command_runs_the_own_tests_of_the_patch(example: ExtensionExample) -> None:
    assert example.own_tests
    assert set(example.own_tests) <= set(example.tests)


@pytest.mark.parametrize("example", EXAMPLES, ids=named)
def test_patch_fits_the_tree(example: ExtensionExample) -> None:
    example.apply(PAGE.parents[1], "--check")


def test_stale_patch_says_how_to_refresh_it(tmp_path: Path) -> None:
    with pytest.raises(PatchError, match=r"Refresh it as\ndocs/development-examples\.md"):
        EXAMPLES[0].apply(tmp_path, "--check")
