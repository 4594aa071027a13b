"""docs/development.md names files that exist, and all files that its first example touches."""

import re

from support.documented import ROOT

PAGE = (ROOT / "docs/development.md").read_text()
NAMED = set(re.findall(r"`([a-z_]+(?:/[\w.-]+)+)`", PAGE))
STEP_EXAMPLE = re.compile(r"Rollback(Observation|Act|ComponentStep)\b|rollback_?[cC]omponent")
SECTIONS = {"step", "limit", "detector", "provider", "rule"}


def test_every_named_path_exists() -> None:
    assert len(NAMED) > 40
    assert [path for path in sorted(NAMED) if not (ROOT / path).exists()] == []


def test_step_section_names_every_file_of_its_example() -> None:
    folders = ("kubenode/api", "remedy", "rules")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    touched = {
        file.relative_to(ROOT).as_posix() for file in files if STEP_EXAMPLE.search(file.read_text())
    }
    assert len(touched) > 6
    assert touched - NAMED == set()


def test_page_has_a_section_for_each_extension() -> None:
    headings = " ".join(re.findall(r"^## (.*)$", PAGE, re.MULTILINE))
    assert {word for word in SECTIONS if word not in headings} == set()
