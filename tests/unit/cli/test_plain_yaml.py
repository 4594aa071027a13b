"""The fast reader of YAML and the one that knows places are of one mind, or the fast one says so.

What it says so of is read by the other.
"""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

import rules
from kubenode.cli.plain_yaml import Otherwise, load_all

FILES = sorted((Path(rules.__file__).parent / "library").rglob("*.yaml"))[::80]
"""Some: all of them take the slow reader seconds."""


def slow(text: str) -> list[Any]:
    return list(YAML(typ="safe", pure=True).load_all(text))


def same(text: str) -> None:
    try:
        found = load_all(text)
    except Otherwise:
        return
    assert repr(found) == repr(slow(text))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_files_of_the_library_are_read_the_same(path: Path) -> None:
    text = path.read_text()
    assert load_all(text) == slow(text)


WORDS = """
off on yes no y n true True TRUE false null Null ~ 1 -1 +1 0 007 0o17 0x1F 0b11 1_000 1:20 1.5 1e3
1.e3 .5 .inf -.Inf .nan 1.2.3 2001-01-01 2001-01-01T10:00:00Z 90s 5% '5' "5" << 2026-11-21T01:59:09Z
= ! !!str -.5e+3 0. 00 08 +.inf
"""


@pytest.mark.parametrize("word", [word for word in WORDS.split() if word != "="])
def test_words_are_read_the_same(word: str) -> None:
    same(f"a: {word}\nb: [{word}, x]\n? {word}\n: c\n")


@pytest.mark.parametrize(
    "text", ["", "---\n---\na: 1\n", "a:\nb:\n", "- &x {a: 1}\n- *x\n", "a: |\n  b\n  c\n"]
)
def test_forms_are_read_the_same(text: str) -> None:
    assert load_all(text) == slow(text)


@pytest.mark.parametrize(
    "text",
    ["a: 1\na: 2\n", "{a: 1, a: 1}", "b: [1, 2\nc: 3\n", "a: 1\n b: 2\n", "\ta: 1", "a: *x", "..."],
)
def test_what_is_wrong_or_doubtful_is_left_to_the_other(text: str) -> None:
    with pytest.raises(Otherwise):
        load_all(text)


SCALARS = st.from_regex(r"[-+]?[0-9a-fox._:eE+~tTrRuU]{1,8}", fullmatch=True)


@settings(max_examples=50)
@given(SCALARS)
def test_any_scalar_is_read_the_same(word: str) -> None:
    try:
        slow(f"a: {word}")
    except Exception:  # noqa: BLE001  what the slow one refuses is not asked here
        return
    same(f"a: {word}")
