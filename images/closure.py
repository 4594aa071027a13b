"""Lists the packages of each image: `python -m images.closure` writes their names beside this file.

requirements.lock has the version and hash for each name. The names are stored so that a new package
in an image shows in a review.
"""

import sys
import tomllib
from functools import cache
from pathlib import Path

from agent.packages.pins import NEEDS, closure
from devtools.generators import ROOT, run

HERE = Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ("3.11.9", "3.12.9", "3.13.5", "3.14.2")
"""Any patch from 3.11.3 on needs the same packages; `venv.sh` fails if one is missing."""
NEITHER_CLOUD_NOR_HOST = ("traces",)
"""Extras of a program that controls no machines."""


def needs() -> dict[str, list[str]]:
    """Return the requirements of each image, by the name of its list.

    The lists `build` and `run` are of no image: `build` has what builds wheels, `run` what
    `make demo` installs. The list `kubenode` has the requirements of every program and provider.
    """
    extras: dict[str, list[str]] = PROJECT["optional-dependencies"]
    always: list[str] = PROJECT["dependencies"]
    return {
        "agent": list(NEEDS),
        "build": ["hatchling", "setuptools"],
        "defender": [*always, *(each for name in NEITHER_CLOUD_NOR_HOST for each in extras[name])],
        "kubenode": [*always, *(each for some in extras.values() for each in some)],
        "run": [*always, *extras["insight"], "editables", "hatchling", "setuptools"],
    }


@cache
def lists() -> dict[Path, str]:
    """Return the content of each file: a line for each package that any of PYTHONS needs."""
    return {HERE / f"{name}.txt": _text(requirements) for name, requirements in needs().items()}


def _text(requirements: list[str]) -> str:
    names = {name for python in PYTHONS for name in closure(requirements, python)}
    return "".join(f"{name}\n" for name in sorted(names))


if __name__ == "__main__":
    sys.exit(run(lists(), sys.argv[1:]))
