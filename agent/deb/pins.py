"""What the agent needs of other packages, and at which version: read from the project's lock."""

import re
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

NEEDS = ("aiohttp", "cryptography", "dbus-fast", "google-re2", "msgspec", "nvidia-ml-py")
LOCK_FILE = Path(__file__).parents[2] / "requirements.lock"


class CannotPin(Exception):
    """The lock lacks something, or what it names does not install; the text says which."""


def pins(python: str, lock: Path = LOCK_FILE) -> str:
    """The blocks of the lock file for `NEEDS` and all that they need in turn, hashes included.

    python  minor version of the host's interpreter: `3.11`
    """
    blocks = re.split(r"\n(?=[a-zA-Z0-9])", lock.read_text())
    by_name = {
        canonicalize_name(re.split(r"[=\[; ]", block, maxsplit=1)[0]): block for block in blocks
    }
    names = _closure(python)
    if missing := names - by_name.keys():
        raise CannotPin(f"{lock.name} lacks {', '.join(sorted(missing))}: lock again")
    return "\n".join(by_name[name] for name in sorted(names)) + "\n"


def install(pinned: str, python: str, folder: Path) -> None:
    """Wheels for CPython `python` into `folder`. Raises CannotPin."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(pinned)
        file.flush()
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        command += ["--disable-pip-version-check", "--require-hashes", "--only-binary=:all:"]
        command += ["--python-version", python, "--target", str(folder), "-r", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotPin(f"the agent's packages do not install: {done.stderr.strip()}")


def _closure(python: str) -> set[NormalizedName]:
    """`NEEDS` and what they need, as the distributions installed here tell."""
    found: set[NormalizedName] = set()
    queue = [canonicalize_name(name) for name in NEEDS]
    environment = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    while queue:
        name = queue.pop()
        if name in found:
            continue
        found.add(name)
        for line in distribution(name).requires or ():
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate(environment):
                queue.append(canonicalize_name(need.name))
    return found
