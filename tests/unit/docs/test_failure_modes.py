"""The page of failure modes: every code that is cited has an entry, and every entry has a test."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from support.documented import ROOT
from support.named_tests import NAMED, missing, rows

PAGE = "docs/explanation/failure-modes.md"
ENTRY = re.compile(r"^### (?:(F\d\d)|Invariant (\d+)): ", re.MULTILINE)
CITED = re.compile(r"(?<!finding )\bF(\d\d)\b|_f(\d\d)(?=_)")
CITED_INVARIANT = re.compile(r"\binvariants? (\d\d?)\b|_invariants?_(\d\d?(?:_\d\d?)*)_", re.I)
FINDING = re.compile(r"\bfinding (F\d+|S-\d+)\b|\b(S-\d{1,2})\b")
SUFFIXES = {".py", ".md", ".yaml", ".jsonl", ".toml"}
FOLDERS = [
    "agent",
    "captain",
    "charts",
    "defender",
    "docs",
    "images",
    "kubenode",
    "machine",
    "remedy",
]
FOLDERS += ["rules", "simulation", "tests"]
REVIEW = "docs/robustness.md"
"""Has a table of a review's findings, whose numbers look like our codes."""


def codes_in(text: str) -> set[str]:
    """Return the codes that the text cites; an invariant as `I07`."""
    codes = {f"F{a or b}" for a, b in CITED.findall(text)}
    for groups in CITED_INVARIANT.findall(text):
        codes |= {f"I{int(number):02}" for group in groups for number in group.split("_") if number}
    return codes


@cache
def entries() -> dict[str, str]:
    """Return the entries of the page: the text below each heading by its code."""
    text = (ROOT / PAGE).read_text()
    marks = list(ENTRY.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return {
        mark[1] or f"I{int(mark[2]):02}": text[mark.end() : end]
        for mark, end in zip(marks, ends, strict=True)
    }


def sources() -> Iterator[tuple[str, str]]:
    """Yield path and text of each file that may cite a code, without the review's table."""
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*"))]
    for file in [*files, *ROOT.glob("*.md")]:
        if file.suffix in SUFFIXES and file.is_file() and file != Path(__file__):
            path, text = file.relative_to(ROOT).as_posix(), file.read_text()
            if path == REVIEW:
                for row in rows(text, "finding"):
                    text = text.replace(row, "")
            if path != PAGE:
                yield path, text


def test_every_code_that_is_cited_has_an_entry() -> None:
    cited = {path: codes for path, text in sources() if (codes := codes_in(text))}
    assert len(cited) > 80
    unknown = {path: codes - set(entries()) for path, codes in cited.items()}
    assert {path: codes for path, codes in unknown.items() if codes} == {}


def test_every_finding_that_is_cited_is_one_of_the_review() -> None:
    known = {row.split("|")[1].strip() for row in rows((ROOT / REVIEW).read_text(), "finding")}
    cited = {a or b for _, text in sources() for a, b in FINDING.findall(text)}
    assert {"F17", "S-10"} <= cited <= known


def test_every_test_that_the_page_names_is_there() -> None:
    assert missing((ROOT / PAGE).read_text(), ROOT) == []


@pytest.mark.parametrize("code", entries())
def test_entry_names_tests_that_carry_its_code(code: str) -> None:
    named = NAMED.findall(entries()[code])
    assert named
    assert [name for _, name in named if code not in codes_in(name)] == []


def test_entries_are_unique_and_in_order() -> None:
    codes = [a or f"I{int(b):02}" for a, b in ENTRY.findall((ROOT / PAGE).read_text())]
    assert len(codes) > 55
    assert codes == sorted(set(codes))


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("def test_f07_x", {"F07"}),
        ("test_f30_f31_invariants_06_07_08_a_fleet", {"F30", "F31", "I06", "I07", "I08"}),
        ("Invariant 4: tokens", {"I04"}),
        ("holds (F17, F20).", {"F17", "F20"}),
        ("test_invariant_4_every_check", {"I04"}),
        ("finding F17; F401; SHA256F12", set()),
        ("the invariant of 3 words", set()),
    ],
)
def test_codes_are_recognized_in_names_and_in_prose(text: str, codes: set[str]) -> None:
    assert codes_in(text) == codes
