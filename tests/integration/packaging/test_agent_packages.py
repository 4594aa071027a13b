"""The agent's packages: the same bytes each time, the same files in each format."""

import hashlib
import subprocess
from pathlib import Path

import pytest
from support.components import require
from support.host_image import agent_libraries

from agent.packages.build import VERSIONS, build
from agent.packages.formats import FORMATS

pytestmark = pytest.mark.timeout(600)

VERSION = "0.1.0"
HOME = f"{VERSIONS}/{VERSION}/"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The package of each format."""
    for program in ("mmdebstrap", "patchelf", "rpmbuild"):
        require(program)
    made = build(tmp_path_factory.mktemp("first"), version=VERSION, built=agent_libraries())
    return dict(zip(FORMATS, made, strict=True))


def test_packages_are_the_same_bytes_when_they_are_built_again(
    packages: dict[str, Path], tmp_path: Path
) -> None:
    again = build(tmp_path, version=VERSION, built=agent_libraries())
    for package in again:
        first = packages[FORMATS[again.index(package)]]
        assert package.name == first.name
        digests = {hashlib.sha256(path.read_bytes()).digest() for path in (package, first)}
        assert len(digests) == 1, package.name


def test_every_format_has_the_same_agent(packages: dict[str, Path]) -> None:
    listed = {
        "deb": f"dpkg-deb --fsys-tarfile {packages['deb']} | tar -t",
        "rpm": f"rpm --query --package --list {packages['rpm']}",
        "tar": f"tar -tzf {packages['tar']} | sed s,^kubenode-agent/{VERSION}/,{HOME},",
    }
    files = {name: _files_of_the_agent(command) for name, command in listed.items()}
    assert len(files["deb"]) > 1000
    assert files["deb"] == files["rpm"] == files["tar"]


def _files_of_the_agent(command: str) -> set[str]:
    output = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    paths = (line.removeprefix("./").strip("/") for line in output.stdout.splitlines())
    return {path for path in paths if path.startswith(HOME)}


def test_interpreter_uses_only_the_loader_and_libraries_of_the_package() -> None:
    runtime = agent_libraries() / "python"
    (interpreter,) = (runtime / "bin").iterdir()
    command = ["patchelf", "--print-interpreter", "--print-rpath", str(interpreter)]
    loader, path = subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.split()
    assert loader == "/opt/kubenode/python/lib/ld-linux-x86-64.so.2"
    assert path == "$ORIGIN/../lib"
    needed = subprocess.run(
        ["patchelf", "--print-needed", str(interpreter)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"libc.so.6", "libm.so.6"} <= set(needed)
    assert [name for name in needed if not (runtime / "lib" / name).exists()] == []
