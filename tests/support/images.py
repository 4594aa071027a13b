"""The images of this checkout as OCI archives, built by images/build.sh once for each content."""

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from support.components import MissingComponent
from support.host_image import cache_folder, once

REPOSITORY = Path(__file__).parents[2]
BUILD = REPOSITORY / "images" / "build.sh"
SOURCES = (
    "agent",
    "captain",
    "defender",
    "insight",
    "kubenode",
    "machine",
    "remedy",
    "rules",
    "images",
)
FILES = ("pyproject.toml", "requirements.lock", "README.md", "LICENSE", "NOTICE")
"""Content of the images, beside Debian's packages."""
BUILT_AT = "1700000000"
"""SOURCE_DATE_EPOCH: the commit does not change the content."""
UNUSED_SECONDS = 86_400.0
VERSION = "0.1.0"
OPERATORS, AGENT = f"localhost/kubenode:{VERSION}", f"localhost/kubenode-agent:{VERSION}"


def operators_archive() -> Path:
    """Return the archive of the image OPERATORS. Raises MissingComponent if it does not build."""
    return _archive("kubenode")


def agent_archive() -> Path:
    """Return the archive of the image AGENT. Raises MissingComponent if it does not build."""
    return _archive("agent")


def build(folder: Path, target: str) -> str:
    """Build `target` into a folder and return its digest. Raises MissingComponent."""
    done = subprocess.run(
        ["sh", BUILD, folder, target],
        env={**os.environ, "SOURCE_DATE_EPOCH": BUILT_AT},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise MissingComponent(f"image {target} does not build: {done.stderr[-3000:]}")
    return (folder / f"{target}.digest").read_text()


def _archive(target: str) -> Path:
    name = f"image-{target}-{_digest()}"
    folder = once(name, lambda new: _build_first(target, new))
    os.utime(folder)
    return folder / f"{target}.tar"


def _build_first(target: str, folder: Path) -> None:
    build(folder, target)
    for older in cache_folder().glob(f"image-{target}-*"):
        if older.is_dir() and older != folder and _age(older) > UNUSED_SECONDS:
            shutil.rmtree(older)


def _age(folder: Path) -> float:
    return time.time() - folder.stat().st_mtime


def _digest() -> str:
    whole = hashlib.sha256()
    for path in _sources():
        whole.update(f"{path.relative_to(REPOSITORY)}\0".encode())
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()[:16]


def _sources() -> Iterable[Path]:
    for name in SOURCES:
        for path in sorted((REPOSITORY / name).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path
    yield from (REPOSITORY / name for name in FILES)
