"""README.md is short, counts right, and its pictures are small and readable by a screen reader."""

import re
from pathlib import Path

import pytest
from support.documented import ROOT

from kubenode.cli.library import packs

README = (ROOT / "README.md").read_text()
PICTURES = re.findall(r"^!\[([^\]]+)\]\(([^)]+)\)$", README, re.MULTILINE)
MOST_BYTES = 150_000


@pytest.mark.parametrize("page", ["README.md", "docs/overview.md"])
def test_page_counts_the_rules_and_packs_of_the_library(page: str) -> None:
    found = packs()
    counted = f"{sum(map(len, found.values()))} rules in {len(found)} packs"
    assert counted in (ROOT / page).read_text()


def test_readme_is_short_and_shows_pictures() -> None:
    assert len(README.splitlines()) <= 90
    assert {Path(path).suffix for _, path in PICTURES} == {".svg", ".png"}


@pytest.mark.parametrize(("text", "path"), PICTURES, ids=lambda value: str(value))
def test_picture_exists_and_is_small(text: str, path: str) -> None:
    assert text
    assert 0 < (ROOT / path).stat().st_size < MOST_BYTES


@pytest.mark.parametrize("path", [path for _, path in PICTURES if path.endswith(".svg")])
def test_drawing_has_dark_colours_and_fetches_nothing(path: str) -> None:
    drawing = (ROOT / path).read_text()
    assert "prefers-color-scheme: dark" in drawing
    assert "<title" in drawing and "<desc" in drawing
    assert not re.search(r"(?:href|src)=|url\((?!#)|<script", drawing)
