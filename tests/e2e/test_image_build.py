"""The images that `make images` builds: reproducible, with nothing that no program needs.

What runs in them is in test_chart_in_pods.py.
"""

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.components import IMAGES, require
from support.images import AGENT, OPERATORS, agent_archive, build, operators_archive

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

DOCUMENT = Path(__file__).parents[2] / "docs" / "images.md"
ARCHIVES = {"kubenode": (operators_archive, OPERATORS), "agent": (agent_archive, AGENT)}
PROGRAMS = {"kubenode": set[str](), "agent": {"nsenter"}}
"""Beside Python."""
TOLERANCE = 0.1
"""Updates change sizes a little; a new large library must show in the document."""


@pytest.fixture(scope="module", params=ARCHIVES)
def image(request: pytest.FixtureRequest) -> str:
    require(IMAGES)
    return str(request.param)


def blobs(archive: Path) -> tuple[dict[str, Any], dict[str, Any], list[tarfile.TarInfo]]:
    """Return the entry of the index, the configuration, and the files of all layers."""
    with tarfile.open(archive) as tar:

        def blob(digest: str) -> Any:
            return tar.extractfile(f"blobs/{digest.replace(':', '/')}")

        with tar.extractfile("index.json") or pytest.fail("no index") as file:
            (entry,) = json.load(file)["manifests"]
        manifest = json.load(blob(entry["digest"]))
        files: list[tarfile.TarInfo] = []
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=blob(layer["digest"])) as inner:
                files += inner.getmembers()
        return entry, json.load(blob(manifest["config"]["digest"])), files


def programs(files: list[tarfile.TarInfo]) -> Iterator[str]:
    for file in files:
        if not file.isdir() and re.match(r"(usr/)?s?bin/", file.name):
            yield file.name.rpartition("/")[2]


def test_an_image_has_its_programs_and_no_shell_package_manager_or_compiler(image: str) -> None:
    archive, name = ARCHIVES[image]
    entry, config, files = blobs(archive())
    assert entry["annotations"]["org.opencontainers.image.ref.name"] == name
    assert config["config"]["User"] == {"kubenode": "65532:65532", "agent": "0:0"}[image]
    others = {each for each in programs(files) if "python3" not in each}
    assert others == PROGRAMS[image]
    assert not [file.name for file in files if file.mode & 0o6000], "programs with other rights"
    packages = {file.name.split("/")[5] for file in files if "/site-packages/" in file.name}
    assert not packages & {"pip", "simulation", "devtools", "tests", "pytest"}
    installed = {Path(file.name).name for file in files if "/dpkg/status.d/" in file.name}
    assert {"libc6", "python3.13-minimal"} <= installed, "what a scanner reads"


def test_two_builds_have_the_same_digest(tmp_path: Path) -> None:
    """The image of the agent: that of the operators differs by its list of libraries."""
    require(IMAGES)
    first = agent_archive().with_suffix(".digest").read_text()
    assert build(tmp_path, "agent") == first


def test_the_document_has_the_size_of_each_archive(image: str) -> None:
    archive, _ = ARCHIVES[image]
    row = re.search(rf"^\| `{image}\.tar` \| (\d+) MB \|", DOCUMENT.read_text(), re.MULTILINE)
    assert row, "docs/images.md names the size of each archive"
    megabytes = archive().stat().st_size / 1_000_000
    assert abs(megabytes - int(row[1])) <= TOLERANCE * int(row[1])
