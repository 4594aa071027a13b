"""Files that are written by programs of ours: write them, or say which differ."""

import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The checkout; what is generated lies in it, not in an installed package."""
FINDING, USAGE = 1, 2


def run(wanted: Mapping[Path, str], arguments: list[str]) -> int:
    """Write every file of `wanted` that differs, or with --check only name it.

    Answers the exit code: 0 fine, 1 a file differs, 2 usage.
    """
    if arguments not in ([], ["--check"]):
        sys.stderr.write(f"unknown arguments {' '.join(arguments)}: give none, or --check\n")
        return USAGE
    stale = [path for path, text in wanted.items() if _read(path) != text]
    for path in stale:
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        if arguments:
            sys.stderr.write(f"{name} is not what its generator writes now: run `make docs`\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path])
            sys.stdout.write(f"wrote {name}\n")
    return FINDING if stale and arguments else 0


def _read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None
