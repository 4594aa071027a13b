"""Builds the layout of the package and packs it with dpkg-deb.

    /opt/kubenode-agent/VERSION/{src,lib}   this program and the libraries it was tested with
    /opt/kubenode -> the running version    (set by the maintainer scripts, not a packaged file)
    /usr/bin/kubenode-agent                 the command
    /usr/lib/systemd/system/*.service       from agent/systemd

Each version has its own folder, so that a rollback to the previous one is possible: see `postinst`.
"""

import compileall
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from agent.deb.pins import install, pins

CHECKOUT = Path(__file__).parents[2]
HERE = Path(__file__).parent
VERSIONS = "opt/kubenode-agent"
SOURCES = (
    "agent",
    "kubenode/__init__.py",
    "kubenode/instants.py",
    "kubenode/py.typed",
    "kubenode/runtime",
)
"""Paths of this checkout that the agent imports. Tests start the agent from the package alone."""
SCRIPTS = ("postinst", "prerm", "postrm")


class CannotBuild(Exception):
    """The package cannot be built. The text says what is missing, and how to get it."""


def build(out: Path, *, python: str = "3.11", version: str = "") -> Path:
    """Build the package and return its path. Raises CannotBuild, CannotPin.

    python: minor version of the host's interpreter
    version: instead of the one in pyproject.toml; tests build two versions
    """
    if shutil.which("dpkg-deb") is None:
        raise CannotBuild("dpkg-deb is missing: build on Debian or install dpkg")
    version = version or project_version()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kubenode-agent-deb-") as folder:
        root = Path(folder) / "root"
        home = root / VERSIONS / version
        sources(home / "src", version)
        install(pins(python), python, home / "lib")
        _compile(home)
        _system(root, version)
        control(root, version, python)
        _age(root)
        package = out / f"kubenode-agent_{version}_{_architecture()}.deb"
        command = [
            "dpkg-deb",
            "--root-owner-group",
            "-Zxz",
            "-z1",
            "--build",
            str(root),
            str(package),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, **epoch()}
        )
    if done.returncode != 0:
        raise CannotBuild(f"dpkg-deb: {done.stderr.strip()}")
    return package


def project_version() -> str:
    with (CHECKOUT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def _architecture() -> str:
    argv = ["dpkg", "--print-architecture"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def sources(to: Path, version: str) -> None:
    """Copy the agent's sources to the folder `to`, with a file of the version that it reports."""
    for name in SOURCES:
        source, target = CHECKOUT / name, to / name
        if source.is_dir():
            skip = shutil.ignore_patterns("__pycache__", "deb", "systemd")
            shutil.copytree(source, target, ignore=skip)
        elif source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    (to / "VERSION").write_text(f"{version}\n")


def _compile(home: Path) -> None:
    """Compile to bytecode without checks of the source's age: the tree is read-only on a host."""
    if sys.version_info[:2] != (3, 11):
        return  # another version's bytecode is of no use; the host's interpreter compiles in memory
    compileall.compile_dir(
        home,
        quiet=2,
        stripdir=str(home.parents[2]),
        prependdir="/",
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    shutil.rmtree(home / "lib" / "bin", ignore_errors=True)


def _system(root: Path, version: str) -> None:
    for unit in sorted((CHECKOUT / "agent/systemd").glob("*.service")):
        _copy(unit, root / "usr/lib/systemd/system" / unit.name)
    _copy(HERE / "kubenode-agent", root / "usr/bin/kubenode-agent", 0o755)
    _copy(HERE / "prove", root / "usr/lib/kubenode-agent/prove", 0o755)
    _copy(HERE / "proven", root / "usr/lib/kubenode-agent/proven", 0o755)
    _copy(HERE / "agent.toml", root / "usr/share/doc/kubenode-agent/agent.toml.example")
    _copy(CHECKOUT / "LICENSE", root / "usr/share/doc/kubenode-agent/copyright")


def _copy(source: Path, target: Path, mode: int = 0o644) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def control(root: Path, version: str, python: str) -> None:
    major, _, minor = python.partition(".")
    text = (HERE / "control").read_text()
    for name, value in {
        "@VERSION@": version,
        "@ARCHITECTURE@": _architecture(),
        "@PYTHON@": python,
        "@NEXT_PYTHON@": f"{major}.{int(minor) + 1}",
    }.items():
        text = text.replace(name, value)
    folder = root / "DEBIAN"
    folder.mkdir()
    (folder / "control").write_text(text)
    for name in SCRIPTS:
        script = (HERE / name).read_text().replace("@VERSION@", version)
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)


def epoch() -> dict[str, str]:
    """Return SOURCE_DATE_EPOCH, the time of all built files, as an environment variable."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not given:
        argv = ["git", "-C", str(CHECKOUT), "log", "-1", "--format=%ct"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        given = done.stdout.strip() or "0"
    return {"SOURCE_DATE_EPOCH": given}


def _age(root: Path) -> None:
    at = int(epoch()["SOURCE_DATE_EPOCH"])
    for path in _all(root):
        os.utime(path, (at, at), follow_symlinks=False)
        if path.is_dir():
            path.chmod(0o755)


def _all(root: Path) -> Iterator[Path]:
    yield root
    yield from sorted(root.rglob("*"))
