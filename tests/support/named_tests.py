"""Tests that a page of the documentation names: `tests/FOLDER/FILE.py::NAME`, or a whole file."""

import re
from pathlib import Path

NAMED = re.compile(r"`(tests/[a-z0-9_/]+\.py)(?:::(\w+))?`")
DEFINED = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)


def missing(page: str, root: Path) -> list[str]:
    """Those of them that are not in the repository at `root`."""
    return [
        f"{file}::{name}"
        for file, name in NAMED.findall(page)
        if not (root / file).is_file()
        or (name and name not in DEFINED.findall((root / file).read_text()))
    ]


def rows(page: str, first: str) -> list[str]:
    """Of the tables of its sections whose first column is headed so."""
    return [
        line
        for section in page.split("\n## ")
        if f"| {first} |" in section
        for line in section.splitlines()
        if line.startswith("| ") and not line.startswith((f"| {first}", "| ---"))
    ]
