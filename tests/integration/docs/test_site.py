"""The documentation as a site: built strictly, without network, and read without network."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
FETCHED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//"
    r"|<link\b[^>]*\brel=\"?(?:stylesheet|preload|icon|preconnect)\b[^>]*\bhref=\"?(?:https?:)?//"
)
"""What a browser loads by itself from elsewhere. A link that a person follows is none."""


FLAGS = re.findall(r"mkdocs build (.*) \$\(ARGS\)", (ROOT / "Makefile").read_text())
BUILD = (sys.executable, "-m", "mkdocs", "build", *FLAGS[0].split())
"""As `make docs-site` builds."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the checkout; by root in a network namespace that has no way out."""
    folder = tmp_path_factory.mktemp("site")
    alone = ["unshare", "--net"] if os.geteuid() == 0 and shutil.which("unshare") else []
    command = [*alone, *BUILD]
    built = subprocess.run(
        [*command, "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.timeout(330)
def test_every_page_and_link_is_there_and_nothing_is_fetched(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 300
    assert not [page for page in pages if FETCHED.search(page.read_text())]


@pytest.mark.timeout(330)
def test_a_rule_is_a_click_away_from_its_runbook(site: Path) -> None:
    page = site / "runbooks/disk-slow.html"
    link = re.search(r'href="([^"]*disk-slow\.yaml)"', page.read_text())
    assert link is not None
    assert "kind: NodeRemedier" in (page.parent / link[1]).read_text()


def test_build_fails_on_a_dead_link(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("[gone](gone.md)\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: x\n")
    built = subprocess.run(
        BUILD,
        cwd=tmp_path,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert built.returncode != 0
    assert "gone.md" in built.stderr
