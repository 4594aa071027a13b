"""Which packages each image holds: `python -m images.closure` writes their names beside this file.

What is installed is the version and the hash that requirements.lock has for a name; the names are
written down so that nobody gets a new package into an image unseen.
"""

import sys
import tomllib
from functools import cache
from pathlib import Path

from agent.deb.pins import NEEDS, closure
from devtools.generators import ROOT, run

HERE = Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ("3.11.9", "3.12.9")
"""Any patch from 3.11.3 on needs the same; `venv.sh` fails where something is missing."""
NEITHER_CLOUD_NOR_HOST = ("traces",)
"""Extras for a program that touches no machine."""


def needs() -> dict[str, list[str]]:
    """What an image is asked to hold, by the name of its list.

    build     what makes wheels of this project and of its libraries; in no image
    kubenode  every program, with every provider
    """
    extras: dict[str, list[str]] = PROJECT["optional-dependencies"]
    always: list[str] = PROJECT["dependencies"]
    return {
        "agent": list(NEEDS),
        "build": ["hatchling", "setuptools"],
        "defender": [*always, *(each for name in NEITHER_CLOUD_NOR_HOST for each in extras[name])],
        "kubenode": [*always, *(each for some in extras.values() for each in some)],
    }


@cache
def lists() -> dict[Path, str]:
    """The files, with what they should say: names for any of PYTHONS, a line each."""
    return {HERE / f"{name}.txt": _text(requirements) for name, requirements in needs().items()}


def _text(requirements: list[str]) -> str:
    names = {name for python in PYTHONS for name in closure(requirements, python)}
    return "".join(f"{name}\n" for name in sorted(names))


if __name__ == "__main__":
    sys.exit(run(lists(), sys.argv[1:]))
