"""Where labelled cases are: ours beside the tests, the shared ones in a folder that may be missing.

The shared folder is named by KUBENODE_SHARED_DATA; without it `shared/data` beside this repository
is tried. It is no part of this repository, so what needs it is skipped by name where it is not.
"""

import os
from pathlib import Path

import pytest

from simulation.coverage import BESIDE, VARIABLE

OWN = Path(__file__).parents[1] / "data" / "cases"


def own_files() -> list[Path]:
    return sorted(OWN.glob("*.jsonl"))


def half(name: str) -> list[Path]:
    """Files of the `open` or the `sealed` half of the cases from public material."""
    return sorted((OWN / name).glob("*.jsonl"))


def shared_folder() -> Path:
    """Skips the calling test, by name, where there is none."""
    folder = Path(os.environ.get(VARIABLE, BESIDE))
    if not (folder / "cases.jsonl").is_file():
        pytest.skip(f"no shared cases in {folder}: name their folder with {VARIABLE}")
    return folder
