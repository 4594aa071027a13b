"""Take the picture of the dashboard that README.md shows: `make picture`.

The fleet is that of the dashboard's browser tests, so the picture shows the same on every machine
but for the times.
"""

import asyncio
from pathlib import Path

from support.browser import chromium, visiting
from support.dashboard_running import api_server, dashboard_over
from support.dashboard_world import fill, spoil
from support.running import until

PICTURE = Path(__file__).parents[2] / "docs/images/dashboard.png"
SIZE = (1200, 800)


async def take_picture(path: Path) -> None:
    """Write the fleet page of a fleet of 240 nodes, three of them faulty, to `path`."""
    async with api_server() as (api, kube), chromium() as browser:
        await fill(kube)
        async with dashboard_over(api, kube) as running, visiting(browser, size=SIZE) as context:
            await spoil(kube)
            board = running.dashboard.board

            def shows_faults() -> bool:
                return dict(board.scene().fleet.counts()).get("Faulty") == 2

            await until(shows_faults, 20, "the faults are shown")
            page = await context.new_page()
            await page.goto(running.way_in)
            await page.wait_for_url(f"{running.url}/")
            path.parent.mkdir(parents=True, exist_ok=True)
            await page.screenshot(path=path)


if __name__ == "__main__":
    asyncio.run(take_picture(PICTURE))
