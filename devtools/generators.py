"""Writes generated files, or reports which differ."""

import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The checkout, which contains all generated files."""
FINDING, USAGE = 1, 2


def run(wanted: Mapping[Path, str], arguments: list[str]) -> int:
    """Write every file of `wanted` that differs, or only name it with --check.

    Return the exit code: 0 for success, 1 if a file differs, 2 for wrong usage.
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
