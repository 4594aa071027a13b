"""Keeps the figures of long runs, for the report of the rules: small, dated, beside the cases."""

import json
from pathlib import Path
from typing import Any

from support.case_data import OWN

FIGURES = OWN / "benign-figures.json"


def keep(name: str, body: dict[str, Any], path: Path = FIGURES) -> None:
    known = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**known, name: body}, indent=1, sort_keys=True) + "\n")
