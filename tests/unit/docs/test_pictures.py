"""The pictures of README.md are in the repository, small, and readable by a screen reader."""

import re
from pathlib import Path

import pytest
from support.documented import ROOT

README = (ROOT / "README.md").read_text()
PICTURES = re.findall(r"^!\[([^\]]+)\]\(([^)]+)\)$", README, re.MULTILINE)
MOST_BYTES = 150_000


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
