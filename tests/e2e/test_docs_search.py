"""The search of the documentation site, in a browser: guides come before reference and runbooks."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from support.browser import chromium
from support.components import require

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
FIRST = {
    "uninstall": "install.html",
    "glossary": "glossary.html",
    "startupGrace": "job-lifecycle.html",
    "cordon": "machine-disruptions.html",
    "drain timeout": "migration.html",
    "rule tests": "reference/rule-tests.html",
}
"""Words that people type, and the page that must be among the first three results."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, which a server on this machine serves."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=300)
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_a_guide_is_among_the_first_results(site: str) -> None:
    require("chromium")
    missing = {}
    async with chromium() as browser:
        page = await browser.new_page()
        for words, wanted in FIRST.items():
            await page.goto(f"{site}/index.html?q={quote(words)}")
            results = page.locator(".md-search-result__link")
            await results.first.wait_for(state="attached")
            links = [await each.get_attribute("href") or "" for each in await results.all()]
            paths = list(dict.fromkeys(urlsplit(link).path.lstrip("/") for link in links))[:3]
            if wanted not in paths:
                missing[words] = paths
    assert not missing
