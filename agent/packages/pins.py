"""Packages that the agent needs, and their versions, from the project's lock file."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

NEEDS = ("aiohttp", "cryptography", "dbus-fast", "google-re2", "msgspec", "nvidia-ml-py")
LOCK_FILE = Path(__file__).parents[2] / "requirements.lock"


class CannotPin(Exception):
    """The lock lacks a package, or a locked package cannot be installed. The text says which."""


def pins(python: str, lock: Path = LOCK_FILE) -> str:
    """Return the blocks of the lock file for `NEEDS` and all their dependencies, with hashes.

    python: minor version of the interpreter, such as `3.13`

    Raises CannotPin for a package that the lock lacks.
    """
    blocks = re.split(r"\n(?=[a-zA-Z0-9])", lock.read_text())
    by_name = {
        canonicalize_name(re.split(r"[=\[; ]", block, maxsplit=1)[0]): block for block in blocks
    }
    names = closure(NEEDS, f"{python}.0").keys()
    if missing := names - by_name.keys():
        raise CannotPin(f"{lock.name} lacks {', '.join(sorted(missing))}: lock again")
    return "\n".join(by_name[name] for name in sorted(names)) + "\n"


def install(pinned: str, python: str, folder: Path, platforms: Sequence[str] = ()) -> None:
    """Install wheels for CPython `python` into `folder`. Raises CannotPin.

    platforms: platform tags of wheels, best first; () for those of this machine
    """
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(pinned)
        file.flush()
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        command += ["--disable-pip-version-check", "--require-hashes", "--only-binary=:all:"]
        command += [f"--platform={platform}" for platform in platforms]
        command += ["--python-version", python, "--target", str(folder), "-r", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotPin(f"the agent's packages do not install: {done.stderr.strip()}")


def closure(needs: Iterable[str], python: str) -> dict[NormalizedName, set[NormalizedName]]:
    """Return `needs` and all their dependencies, each with its own direct dependencies.

    Extras count; the metadata is that of the installed distributions.

    needs: as in pyproject.toml, such as `uvicorn[standard]>=0.30`
    python: full version, such as `3.11.2`
    """
    minor = python.rpartition(".")[0]
    done: set[tuple[NormalizedName, str]] = set()
    dependencies: dict[NormalizedName, set[NormalizedName]] = {}
    queue = [Requirement(need) for need in needs]
    while queue:
        need = queue.pop()
        name = canonicalize_name(need.name)
        below = dependencies.setdefault(name, set())
        for extra in {"", *need.extras} - {known for package, known in done if package == name}:
            done.add((name, extra))
            environment = {"python_version": minor, "python_full_version": python, "extra": extra}
            for deeper in _needs(name):
                if deeper.marker is None or deeper.marker.evaluate(environment):
                    below.add(canonicalize_name(deeper.name))
                    queue.append(deeper)
    return dependencies


@cache
def _needs(name: NormalizedName) -> tuple[Requirement, ...]:
    return tuple(map(Requirement, distribution(name).requires or ()))
