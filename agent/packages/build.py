"""Builds the files of the packages: one self-contained agent, which needs no Python of the host.

    /opt/kubenode-agent/VERSION/src     this program
    /opt/kubenode-agent/VERSION/lib     the libraries it was tested with
    /opt/kubenode-agent/VERSION/python  its own CPython and C library (runtime.py)
    /opt/kubenode-agent/VERSION/bin     python3, kubenode-agent, prove, proven
    /opt/kubenode -> the running version    (set by the scripts, not a packaged file)
    /usr/bin/kubenode-agent, /usr/lib/kubenode-agent/proven -> /opt/kubenode/bin
    /usr/lib/systemd/system/*.service   from agent/systemd

Each version has its own folder, so that a rollback to the previous one is possible: lifecycle.sh.
"""

import os
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.packages.formats import FORMATS, PACKERS, AgentTree
from agent.packages.pins import install, pins
from agent.packages.runtime import (
    ARCHITECTURES,
    CHECKOUT,
    PYTHON,
    command_of,
    install_runtime,
    is_native,
    run,
)

HERE = Path(__file__).parent
VERSIONS = "opt/kubenode-agent"
COMMANDS = ("kubenode-agent", "prove", "proven")
SOURCES = (
    "agent",
    "kubenode/__init__.py",
    "kubenode/instants.py",
    "kubenode/py.typed",
    "kubenode/runtime",
)
"""Paths of this checkout that the agent imports. Tests start the agent from the package alone."""


def build(
    out: Path,
    *,
    architecture: str = "amd64",
    formats: Sequence[str] = FORMATS,
    version: str = "",
    built: Path | None = None,
) -> list[Path]:
    """Build the packages and return their paths. Raises CannotBuild, CannotPin.

    architecture: as dpkg names it
    version: instead of the one in pyproject.toml; tests build two versions
    built: folder with the output of `install_libraries`, which tests build once
    """
    version = version or project_version()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kubenode-agent-") as folder:
        root = Path(folder) / "root"
        home = root / VERSIONS / version
        sources(home / "src", version)
        if built is None:
            install_libraries(architecture, home)
        else:
            shutil.copytree(built, home, symlinks=True, dirs_exist_ok=True)
        if is_native(architecture):
            _compile(home / "src", home / "python", architecture, VERSIONS, version)
        _commands(home)
        _system(root)
        _age(root)
        tree = AgentTree(root, version, architecture, int(epoch()["SOURCE_DATE_EPOCH"]))
        return [PACKERS[name](tree, out) for name in formats]


def project_version() -> str:
    with (CHECKOUT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def sources(to: Path, version: str) -> None:
    """Copy the agent's sources to the folder `to`, with a file of the version that it reports."""
    for name in SOURCES:
        source, target = CHECKOUT / name, to / name
        if source.is_dir():
            skip = shutil.ignore_patterns("__pycache__", "packages", "systemd")
            shutil.copytree(source, target, ignore=skip)
        elif source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    (to / "VERSION").write_text(f"{version}\n")


def install_libraries(architecture: str, home: Path) -> None:
    """Make the folders `lib` and `python` of a version. Raises CannotBuild, CannotPin."""
    install(pins(PYTHON), PYTHON, home / "lib", ARCHITECTURES[architecture].wheels)
    shutil.rmtree(home / "lib" / "bin", ignore_errors=True)
    install_runtime(architecture, home / "lib", home / "python")
    if is_native(architecture):
        for part in ("lib", "python/lib"):
            _compile(home / part, home / "python", architecture, "opt/kubenode", "")
    (home / "bin").mkdir()
    (home / "bin/python3").symlink_to(f"../python/bin/python{PYTHON}")


def _compile(part: Path, runtime: Path, architecture: str, parent: str, version: str) -> None:
    """Compile to bytecode without checks of the source's age: the tree is read-only on a host.

    A package for another architecture has no bytecode: its interpreter does not run here.
    """
    options = ["-q", "-s", str(part), "-p", str(Path("/", parent, version, part.name))]
    options += ["--invalidation-mode", "unchecked-hash"]
    run(*command_of(runtime, architecture), "-m", "compileall", *options, str(part))


def _commands(home: Path) -> None:
    for name in COMMANDS:
        _copy(HERE / name, home / "bin" / name, 0o755)


def _system(root: Path) -> None:
    for unit in sorted((CHECKOUT / "agent/systemd").glob("*.service")):
        _copy(unit, root / "usr/lib/systemd/system" / unit.name)
    for link, name in {
        "usr/bin/kubenode-agent": "kubenode-agent",
        "usr/lib/kubenode-agent/proven": "proven",
    }.items():
        (root / link).parent.mkdir(parents=True, exist_ok=True)
        (root / link).symlink_to(f"/opt/kubenode/bin/{name}")
    _copy(HERE / "agent.toml", root / "usr/share/doc/kubenode-agent/agent.toml.example")
    _copy(CHECKOUT / "LICENSE", root / "usr/share/doc/kubenode-agent/copyright")


def _copy(source: Path, target: Path, mode: int = 0o644) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


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
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
        elif not path.is_symlink():
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (at, at), follow_symlinks=False)


def _all(root: Path) -> Iterator[Path]:
    yield root
    yield from sorted(root.rglob("*"))
