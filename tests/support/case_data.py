"""Where labelled cases are: ours beside the tests, the shared ones in a folder that may be missing.

The shared folder is named by KUBENODE_SHARED_DATA; without it /work/shared/data is tried. It is no
part of this repository, so what needs it is skipped by name where it is not there.
"""

import os
from pathlib import Path

import pytest

OWN = Path(__file__).parents[1] / "data" / "cases"
VARIABLE = "KUBENODE_SHARED_DATA"
USUAL = Path("/work/shared/data")


def own_files() -> list[Path]:
    return sorted(OWN.glob("*.jsonl"))


def shared_folder() -> Path:
    """Skips the calling test, by name, where there is none."""
    folder = Path(os.environ.get(VARIABLE, USUAL))
    if not (folder / "cases.jsonl").is_file():
        pytest.skip(f"no shared cases in {folder}: name their folder with {VARIABLE}")
    return folder
