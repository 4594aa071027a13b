"""Every place that names the supported versions of Kubernetes names the same ones."""

import re
import subprocess

import pytest
import yaml  # type: ignore[import-untyped]
from run import PARTS
from support.documented import ROOT

from kubenode.cli.doctor_checks import NEWEST_VERSION, OLDEST_VERSION
from simulation.apiserver.discovery import VERSION

OLDEST, NEWEST = (".".join(map(str, version)) for version in (OLDEST_VERSION, NEWEST_VERSION))
MODULES = ROOT / "tests/control_plane"
CLAIM = re.compile(r"Kubernetes (1\.\d+) or (?:later|newer)")


def built(folder: str) -> str:
    """Return the version of Kubernetes that tests/control_plane/build.sh builds, as 1.37.2."""
    found = re.search(r"k8s\.io/kubernetes v(\S+)", (MODULES / folder / "go.mod").read_text())
    assert found
    return found[1]


def table_row(page: str, name: str) -> str:
    lines = (ROOT / page).read_text().splitlines()
    (row,) = (line for line in lines if line.startswith(f"| {name} |"))
    return row


def test_tests_run_on_the_oldest_and_on_the_newest_supported_version() -> None:
    assert built("oldest").startswith(f"{OLDEST}.")
    assert {part.kubernetes for part in PARTS} == {"", "oldest"}
    assert built("newest").startswith(f"{NEWEST}.")


@pytest.mark.parametrize(
    ("page", "row"), [("README.md", "Kubernetes"), ("docs/install.md", "API server")]
)
def test_page_names_the_supported_and_the_tested_versions(page: str, row: str) -> None:
    _, _, supported, tested, _ = table_row(page, row).split("|")
    assert supported.strip().startswith(f"{OLDEST} to {NEWEST}")
    assert built("newest") in tested and built("oldest") in tested


def test_chart_accepts_the_oldest_supported_version_and_none_below() -> None:
    chart = yaml.safe_load((ROOT / "charts/kubenode/Chart.yaml").read_text())
    assert chart["kubeVersion"] == f">={OLDEST}.0-0"


def test_embedded_api_server_reports_a_supported_version() -> None:
    assert VERSION["gitVersion"].startswith(f"v{NEWEST}.")


def test_no_page_and_no_manifest_claims_another_oldest_version() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "charts").rglob("*.yaml")]
    claims = {page.name: set(CLAIM.findall(page.read_text())) - {OLDEST} for page in pages}
    assert not {page: wrong for page, wrong in claims.items() if wrong}


def test_build_of_an_unknown_version_is_refused_and_names_the_known_ones() -> None:
    command = (MODULES / "build.sh", "--where", "1.30")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    known = sorted(
        path.parent.name for path in MODULES.glob("*/go.mod") if path.parent.name != "etcd"
    )
    assert done.returncode == 2
    assert '"1.30"' in done.stderr and all(name in done.stderr for name in known)
