"""`python -m devtools.release`, which `make release` runs: every file of a release, by itself."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from support.components import HELM, require
from support.helm import CHART, NAMESPACE, Helm, documents

from agent.packages.build import project_version
from devtools.release import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
VERSION = project_version()


def release(folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "devtools.release", str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "files"
    done = release(folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(file) for file in sorted(folder.iterdir())]
    return folder


def test_checksums_name_every_file(files: Path) -> None:
    lines = (files / "SHA256SUMS").read_text().splitlines()
    assert {line.split()[1] for line in lines} == {f.name for f in files.iterdir()} - {"SHA256SUMS"}
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=files, check=True)


def test_every_file_has_the_version_of_the_project(files: Path) -> None:
    names = {f.name for f in files.iterdir()}
    assert {f"kubenode-{VERSION}.tgz", f"kubenode-images-{VERSION}.tar.gz"} <= names
    for package in ("kubenode", "kubenode_simulation"):
        wheel = files / f"{package}-{VERSION}-py3-none-any.whl"
        with zipfile.ZipFile(wheel) as content:
            metadata = content.read(f"{package}-{VERSION}.dist-info/METADATA").decode()
        assert f"\nVersion: {VERSION}\n" in metadata
    assert f'"version": "{VERSION}"' in (files / "kubenode.cdx.json").read_text()


def test_helm_renders_the_packed_chart_as_that_of_the_sources(files: Path, tmp_path: Path) -> None:
    require(HELM)
    helm = Helm(tmp_path)
    packed = files / f"kubenode-{VERSION}.tgz"
    (chart,) = documents(helm.done("show", "chart", packed))
    assert chart["version"] == chart["appVersion"] == VERSION
    rendered = [
        helm.done("template", "kubenode", source, "-n", NAMESPACE, "--include-crds")
        for source in (packed, CHART)
    ]
    assert _steady(rendered[0]) == _steady(rendered[1])


def _steady(text: str) -> set[str]:
    """Kinds and names: keys of certificates differ with each rendering."""
    return {f"{each['kind']}/{each['metadata']['name']}" for each in documents(text)}


def test_the_recipe_has_all_that_the_containerfile_copies(files: Path, tmp_path: Path) -> None:
    with tarfile.open(files / f"kubenode-images-{VERSION}.tar.gz") as recipe:
        recipe.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    lines = (folder / "images" / "Containerfile").read_text().splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--" not in line]
    names = [name for words in copied for name in words]
    assert "requirements.lock" in names
    for name in names:
        assert [*folder.glob(name)], f"{name} is missing"
    assert (folder / "images" / "build.sh").read_bytes() == (ROOT / "images/build.sh").read_bytes()


def test_the_same_sources_give_the_same_files(files: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert release(again).returncode == 0
    assert (again / "SHA256SUMS").read_text() == (files / "SHA256SUMS").read_text()


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kubenode-0.0.1.tgz").touch()
    done = release(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"release: folder {tmp_path} is not empty; remove it")
