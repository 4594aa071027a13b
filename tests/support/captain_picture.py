"""Take the pictures of Captain's pages that docs/releases.md shows: `make picture`.

The fleet is that of the browser tests, so the pictures show the same on every machine but for the
times.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from support.browser import chromium, visiting
from support.captain_site import captain_site_over, fill_fleet
from support.dashboard_running import api_server

FOLDER = Path(__file__).parents[2] / "docs/images"
SIZE = (1200, 800)
CLUSTERS = 100
PAGES: Mapping[str, str] = {
    "captain-clusters.png": "/",
    "captain-release.png": "/releases/rules-7",
}
"""Name of each picture, and the path of its page."""


async def take_pictures(folder: Path) -> None:
    """Write the pictures of PAGES to `folder`."""
    async with api_server() as (api, kube), chromium() as browser:
        await fill_fleet(kube, CLUSTERS)
        async with captain_site_over(api, kube) as site, visiting(browser, size=SIZE) as context:
            page = await context.new_page()
            await page.goto(site.way_in)
            await page.wait_for_url(f"{site.url}/")
            for name, path in PAGES.items():
                await page.goto(site.url + path)
                await page.screenshot(path=folder / name)


if __name__ == "__main__":
    asyncio.run(take_pictures(FOLDER))
