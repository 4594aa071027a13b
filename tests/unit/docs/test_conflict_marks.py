"""No page or file of the repository has marks of a merge conflict."""

import re
from pathlib import Path

from support.documented import ROOT

MARKS = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
WRITTEN_BY_PEOPLE = {".md", ".py", ".sh", ".yaml", ".yml", ".toml", ".json", ".tpl", ".txt"}


def files(folder: Path) -> list[Path]:
    hidden = [path for path in folder.iterdir() if not path.name.startswith(".")]
    return [path for path in hidden if path.is_file()] + [
        path for each in hidden if each.is_dir() for path in each.rglob("*") if path.is_file()
    ]


def test_no_file_has_marks_of_a_merge_conflict() -> None:
    texts = [path for path in files(ROOT) if path.suffix in WRITTEN_BY_PEOPLE]
    assert len(texts) > 1000
    assert [str(path) for path in texts if MARKS.search(path.read_text(errors="replace"))] == []
